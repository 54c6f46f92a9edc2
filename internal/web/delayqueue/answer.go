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

// Messages of successful answers.
const (
	pushed = "添加成功"
	done   = "操作成功"
)

// envelope is the body of every answer; a code other than 0 means failure.
type envelope struct {
	Code    int                `json:"code"`
	Message string             `json:"message"`
	Data    any                `json:"data"`
	jobs    []*client.Delivery // released if the answer cannot be written
}

func success(message string, data any) envelope { return envelope{Message: message, Data: data} }

func failure(message string) envelope { return envelope{Code: 1, Message: message} }

func (e envelope) write(w http.ResponseWriter, status int) error {
	text, err := json.Marshal(e)
	if err != nil {
		panic(err) // it holds only strings and integers
	}
	return web.Write(w, status, "text/plain; charset=utf-8", text) // as delay-queue does
}

// failed is the answer to a call that failed. What is wrong with the request is told without the client's description of the operation, which
// quotes the ID.
func (a *api) failed(chinese, english string, err error) envelope {
	var why string
	switch {
	case errors.Is(err, client.ErrInvalid):
		why = errors.Unwrap(err).Error()
	case errors.Is(err, client.ErrClosed) || errors.Is(err, web.ErrStopping):
		why = "the daemon stops: try again"
	default:
		a.Failed(err)
		why = web.Trouble(err)
	}
	return failure(chinese + ": " + english + ": " + why)
}

// tell answers with a job's data, unless its ID or body is not UTF-8, which JSON cannot carry. delay-queue
// would replace such bytes, and then nobody could finish the job.
func tell(id, body string, data any) envelope {
	if utf8.ValidString(id) && utf8.ValidString(body) {
		return success(done, data)
	}
	return failure(fmt.Sprintf("Job 不是 UTF-8，请使用 /v1: the job %.64q is not UTF-8: use /v1 for it, which has id_base64 and body_base64", id))
}

// refuse answers a request that is not admitted. Only these answers have an HTTP status other than 200.
func refuse(w http.ResponseWriter, _ *http.Request, status int, why string) {
	chinese := "拒绝访问"
	if status == http.StatusUnauthorized {
		chinese = "未授权"
	}
	failure(chinese+": "+why).write(w, status)
}
