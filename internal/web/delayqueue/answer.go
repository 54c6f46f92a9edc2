package delayqueue

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"unicode/utf8"

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/internal/web"
)

// The messages of success.
const (
	pushed = "添加成功"
	done   = "操作成功"
)

// envelope is what every request gets; a code other than 0 means failure.
type envelope struct {
	Code    int                `json:"code"`
	Message string             `json:"message"`
	Data    any                `json:"data"`
	jobs    []*client.Delivery // are given back if nobody gets the answer
}

func success(message string, data any) envelope { return envelope{Message: message, Data: data} }

func failure(message string) envelope { return envelope{Code: 1, Message: message} }

// usual are the texts of the successes without data, by their messages.
var usual = map[string][]byte{pushed: success(pushed, nil).text(), done: success(done, nil).text()}

func (e envelope) text() []byte {
	text, err := json.Marshal(e)
	if err != nil {
		panic(err) // there are strings and integers in it only
	}
	return text
}

func (e envelope) write(w http.ResponseWriter, status int) error {
	text := usual[e.Message]
	if text == nil || e.Data != nil {
		text = e.text()
	}
	return web.Write(w, status, "text/plain; charset=utf-8", text) // as delay-queue's, whatever one may think of it
}

// failed is the answer when a call of the client's has failed. The client's own words for what was called
// are left out: they quote the ID.
func failed(chinese, english string, err error) envelope {
	if cause := errors.Unwrap(err); cause != nil {
		err = cause
	}
	return failure(chinese + ": " + english + ": " + err.Error())
}

// tell is the answer that has data of a job, unless its ID or body is no UTF-8, of which JSON can't tell.
// In delay-queue's place of such bytes stand others: nobody could finish the job.
func tell(id, body string, data any) envelope {
	if utf8.ValidString(id) && utf8.ValidString(body) {
		return success(done, data)
	}
	return failure(fmt.Sprintf("Job 不是 UTF-8，请使用 /v1: the job %.64q is not UTF-8: use /v1 for it, which has id_base64 and body_base64", id))
}

// refuse answers a request that the front does not let in. Unlike all other answers this has the
// status that says so.
func refuse(w http.ResponseWriter, _ *http.Request, status int, why string) {
	chinese := "拒绝访问"
	if status == http.StatusUnauthorized {
		chinese = "未授权"
	}
	failure(chinese+": "+why).write(w, status)
}
