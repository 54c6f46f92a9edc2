package delayqueue

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"unicode/utf8"
)

// The messages of success.
const (
	pushed = "添加成功"
	done   = "操作成功"
)

// envelope is what every request gets; a code other than 0 means failure.
type envelope struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
	Data    any    `json:"data"`
}

func (e envelope) text() []byte {
	text, err := json.Marshal(e)
	if err != nil {
		panic(err) // there are strings and integers in it only
	}
	return text
}

func success(message string, data any) []byte { return envelope{Message: message, Data: data}.text() }

// The answers that are always the same.
var (
	isPushed = success(pushed, nil)
	isDone   = success(done, nil)
)

func failure(message string) []byte { return envelope{Code: 1, Message: message}.text() }

func fail(w http.ResponseWriter, message string) { write(w, failure(message)) }

func write(w http.ResponseWriter, text []byte) error {
	setHeaders(w, text)
	_, err := w.Write(text)
	return err
}

func setHeaders(w http.ResponseWriter, text []byte) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8") // as delay-queue's, whatever one may think of it
	w.Header().Set("Content-Length", strconv.Itoa(len(text)))
}

// failed is the message about a call of the client's that failed. The client's own words for what
// was called are left out: they quote the ID.
func failed(chinese, english string, err error) string {
	if cause := errors.Unwrap(err); cause != nil {
		err = cause
	}
	return chinese + ": " + english + ": " + err.Error()
}

// notText is the complaint about a job of which JSON can't tell, if its ID or body is no UTF-8; else it is
// empty. In delay-queue's place of such bytes stand others: nobody could finish the job.
func notText(id, body string) string {
	if utf8.ValidString(id) && utf8.ValidString(body) {
		return ""
	}
	return fmt.Sprintf("Job 不是 UTF-8，请使用 /v1: the job %.64q is not UTF-8: use /v1 for it, which has id_base64 and body_base64", id)
}

// refuse answers a request that the front does not let in. Unlike all other answers this has the
// status that says so.
func refuse(w http.ResponseWriter, _ *http.Request, status int, why string) {
	chinese := "拒绝访问"
	if status == http.StatusUnauthorized {
		chinese = "未授权"
	}
	text := failure(chinese + ": " + why)
	setHeaders(w, text)
	w.WriteHeader(status)
	w.Write(text)
}
