package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/mix-basic/delayer/internal/duration"
	"github.com/mix-basic/delayer/internal/exit"
	"github.com/mix-basic/delayer/internal/fsck"
	"github.com/mix-basic/delayer/internal/store"
)

func beginFsck(f *flagSet) action {
	var o fsck.Options
	f.toggle("repair", &o.Repair)
	oneOf(f, "lost", &o.Lost, store.LostRequeue, store.LostDrop, fsck.List)
	f.check = func([]string) error {
		if o.Lost != "" && !o.Repair {
			return errors.New("--lost says how --repair repairs")
		}
		return nil
	}
	return func(ctx context.Context, c *call) (reply, error) { return reply{}, c.fsck(ctx, o) }
}

// fsck checks all keys. It exits with exit.Nothing if faults are left.
func (c *call) fsck(ctx context.Context, o fsck.Options) error {
	bar, began := newProgress(c.stderr), time.Now()
	o.Progress = func(done, total int) {
		share := float64(done) / float64(max(total, 1))
		switch {
		case !bar.redraws:
		case share < 1:
			left := time.Duration(float64(time.Since(began)) * (1 - share) / max(share, 0.001)).Round(time.Second)
			bar.show(done, max(total, 1), fmt.Sprintf("%d %%, about %v left", int(100*share), duration.Format(left)))
		default:
			bar.show(0, 0, "waiting, to check again what may be on its way")
		}
	}
	report, err := fsck.New(c.fleet, o).Run(ctx)
	bar.end()
	if err != nil && len(report.Findings) == 0 {
		return err
	}
	if cannot := c.write(ctx, c.fsckText(report, o)); cannot != nil || err != nil {
		return cmp.Or(err, cannot)
	}
	if report.Left > 0 {
		return exit.With(exit.Nothing, nil)
	}
	return nil
}

func (c *call) fsckText(r fsck.Report, o fsck.Options) string {
	if c.json {
		if r.Findings == nil {
			r.Findings = []fsck.Finding{}
		}
		return jsonLine(r) + "\n"
	}
	var b strings.Builder
	for _, f := range r.Findings {
		fmt.Fprintf(&b, "%s: %d found, %d repaired: %s\n", f.Kind, f.Found, f.Repaired, f.Means())
		for _, example := range f.Examples {
			fmt.Fprintf(&b, "  %s\n", printable(example, ""))
		}
	}
	if r.Busy > 0 {
		fmt.Fprintf(&b, "not compared: the numbers of reserved jobs of %d topics, which change all the time\n", r.Busy)
	}
	fmt.Fprintf(&b, "%d keys and %d entries checked: ", r.Keys, r.Entries)
	switch {
	case r.Left == 0 && len(r.Findings) == 0:
		b.WriteString("nothing is wrong\n")
	case r.Left == 0:
		b.WriteString("everything is repaired\n")
	case o.Repair:
		fmt.Fprintf(&b, "faults left: %d\n", r.Left)
	case r.Repairable() == 0:
		fmt.Fprintf(&b, "faults: %d, which delayer fsck leaves as they are\n", r.Left)
	case r.Repairable() < r.Left:
		fmt.Fprintf(&b, "faults: %d; delayer fsck --repair repairs %d of them\n", r.Left, r.Repairable())
	default:
		fmt.Fprintf(&b, "faults: %d; delayer fsck --repair repairs them\n", r.Left)
	}
	return b.String()
}
