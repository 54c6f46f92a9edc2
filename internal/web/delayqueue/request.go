package delayqueue

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/internal/store"
	"github.com/mix-basic/delayer/internal/web"
)

// Limits of a push, in seconds.
const (
	maxDelay = 1<<31 - 1
	maxTTR   = 86400
)

// Limits of a pop. delay-queue has none, but here each topic costs a registration and polls for as long as
// the request waits.
const (
	maxTopics = 256
	maxTopic  = store.MaxTopic // bytes; longer topics cannot be pushed
)

// job is the body of a push, and of /get's answer, with the due time as its delay.
type job struct {
	Topic string `json:"topic"`
	ID    string `json:"id"`
	Delay int64  `json:"delay"`
	TTR   int64  `json:"ttr"`
	Body  string `json:"body"`
}

// readJob reads the body of /push; complaint is empty if it is valid.
func readJob(body []byte) (j job, complaint string) {
	if complaint := decode(body, &j); complaint != "" {
		return job{}, complaint
	}
	j.ID, j.Topic, j.Body = strings.TrimSpace(j.ID), strings.TrimSpace(j.Topic), strings.TrimSpace(j.Body)
	switch {
	case j.ID == "":
		return job{}, noID
	case j.Topic == "":
		return job{}, "topic 不能为空: topic must not be empty"
	case j.Delay < 1 || j.Delay > maxDelay:
		return job{}, "delay 取值范围1 - (2^31 - 1): delay must be from 1 to 2147483647, in seconds"
	case j.TTR < 1 || j.TTR > maxTTR:
		return job{}, "ttr 取值范围1 - 86400: ttr must be from 1 to 86400, in seconds"
	}
	return j, ""
}

const noID = "job id不能为空: id must not be empty"

// readID reads a body that names a job.
func readID(body []byte) (id, complaint string) {
	var request struct {
		ID string `json:"id"`
	}
	if complaint := decode(body, &request); complaint != "" {
		return "", complaint
	}
	if id = strings.TrimSpace(request.ID); id == "" {
		return "", noID
	}
	return id, ""
}

// readTopics reads the body of /pop: topics separated by commas, in order of priority. Like delay-queue, it
// does not trim them, although pushed topics are trimmed.
func readTopics(body []byte) (topics []string, complaint string) {
	var request struct {
		Topic string `json:"topic"`
	}
	if complaint := decode(body, &request); complaint != "" {
		return nil, complaint
	}
	for topic := range strings.SplitSeq(request.Topic, ",") {
		topic = strings.TrimSpace(topic)
		switch {
		case topic == "" || slices.Contains(topics, topic):
			continue
		case len(topic) > maxTopic:
			return nil, fmt.Sprintf("topic 超过 %d 字节: a topic must have %d bytes at most", maxTopic, maxTopic)
		case len(topics) == maxTopics:
			return nil, fmt.Sprintf("topic 超过 %d 个: there must be %d topics at most", maxTopics, maxTopics)
		}
		topics = append(topics, strings.Clone(topic)) // a long wait must not keep the whole body in memory
	}
	if len(topics) == 0 {
		return nil, "topic不能为空: topic must not be empty"
	}
	return topics, ""
}

// decode reads JSON as delay-queue does: unknown fields are ignored, numbers are integers, and invalid UTF-8
// becomes U+FFFD.
func decode(body []byte, into any) (complaint string) {
	err := json.Unmarshal(body, into)
	if err == nil {
		return ""
	}
	wrong := (*json.UnmarshalTypeError)(nil)
	switch {
	case !errors.As(err, &wrong):
		return "解析json失败: the request's body is not JSON: " + err.Error()
	case wrong.Field == "":
		return "解析json失败: 请求体应为对象: the request's body must be a JSON object"
	case wrong.Type.Kind() == reflect.String:
		return fmt.Sprintf("解析json失败: %s 应为字符串: %s must be a string", wrong.Field, wrong.Field)
	}
	return fmt.Sprintf("解析json失败: %s 应为整数: %s must be an integer, without quotes, point and exponent", wrong.Field, wrong.Field)
}

// unreadable is the complaint about a body that could not be read.
func unreadable(err error, most int64) string {
	if errors.Is(err, web.ErrTooLarge) {
		return fmt.Sprintf("读取request body失败: 超过 %d 字节: the request's body must have %d bytes at most", most, most)
	}
	return "读取request body失败: the request's body could not be read: " + err.Error()
}

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
