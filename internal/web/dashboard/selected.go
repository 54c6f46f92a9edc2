package dashboard

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/internal/operator"
)

// maxSelected is how many dead letters may be selected, some pages of them.
const maxSelected = 1000

// selected are the IDs of the dead letters that were ticked.
func (p *page) selected() ([]string, error) {
	packed := p.form["selected"]
	if len(packed) > maxSelected {
		return nil, &wrong{"wrong.many", number(maxSelected)}
	}
	ids := make([]string, len(packed))
	for i, text := range packed {
		id, err := base64.RawURLEncoding.DecodeString(text)
		if err != nil || len(id) == 0 {
			return nil, &wrong{"wrong.base64", "selected"}
		}
		ids[i] = string(id)
	}
	return ids, nil
}

// askSelected asks whether it is to be done to those that were ticked; if none was, the page on which
// to tick is shown again, and says so.
func (d *Dashboard) askSelected(p *page, name string, found action, t target) error {
	if len(t.ids) == 0 {
		p.meet(&wrong{"wrong.selected", visible(t.topic)}, "")
		return d.showDead(p, t.topic, "")
	}
	return p.ask(name, found, t, len(t.ids))
}

// requeueSelected goes on where a dead letter can't be requeued, as a job of its ID exists.
func (d *Dashboard) requeueSelected(ctx context.Context, t target) (done int, err error) {
	kept, why := 0, error(nil)
	for _, id := range t.ids {
		switch err := d.client.Requeue(ctx, id); {
		case err == nil:
			done++
		case errors.Is(err, client.ErrExists):
			kept++
			why = cmp.Or(why, err)
		case !errors.Is(err, client.ErrNotFound): // else somebody was faster
			return done, err
		}
	}
	if kept > 0 {
		err = fmt.Errorf("%d %w, as %w", kept, operator.ErrKept, why)
	}
	return done, err
}

// countSelected is how many there were: those that are gone by now are not looked for.
func (d *Dashboard) countSelected(_ context.Context, t target) (int, error) { return len(t.ids), nil }
