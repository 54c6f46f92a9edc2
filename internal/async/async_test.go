package async

import (
	"bytes"
	"testing"
	"testing/synctest"
	"time"
)

// Write waits for a slow reader as long as it accepts a piece within the patience.
func TestPatience(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const patience = 10 * time.Second
		w := New(func(piece []byte) (int, error) {
			time.Sleep(patience - 1)
			return len(piece), nil
		}, patience)
		piece := append(bytes.Repeat([]byte("x"), MaxPending/5-1), '\n') // five of them take longer
		for n := range 20 {
			if _, err := w.Write(piece); err != nil {
				t.Fatalf("piece %d: %v", n, err)
			}
		}
		w.Close()
		<-w.ended
	})
}
