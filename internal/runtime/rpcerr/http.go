// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package rpcerr

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"strconv"
	"time"

	"connectrpc.com/connect"

	errorsv1 "github.com/leatdev/leat/gen/go/leat/errors/v1"
)

// maxHTTPBody bounds how much [FromHTTP] reads of an answer, which an intermediary may have
// written.
const maxHTTPBody = 64 << 10

// httpError is the body of an error at a plain HTTP endpoint.
type httpError struct {
	Code     string            `json:"code"`
	Reason   string            `json:"reason"`
	Message  string            `json:"message"`
	Metadata map[string]string `json:"metadata,omitempty"`
}

// WriteHTTP answers a plain HTTP request with err: the status of its code, Retry-After if waiting
// helps, and a JSON body with code, reason, message and metadata (none for HEAD). Pass what
// [Redact] returned: an error without a reason is answered as INTERNAL without any text of its own.
// It must be called before anything else was written.
func WriteHTTP(w http.ResponseWriter, r *http.Request, err error) {
	typed := typedOf(err)
	if typed == nil {
		typed = New(connect.CodeInternal, errorsv1.Reason_REASON_INTERNAL, "internal error")
	}
	header := w.Header()
	header.Del("Content-Length")
	header.Del("Content-Encoding")
	header.Del("ETag")
	header.Set("Content-Type", "application/json")
	header.Set("Cache-Control", "no-store")
	header.Set("X-Content-Type-Options", "nosniff")
	if delay, found := RetryDelay(typed); found {
		header.Set("Retry-After", strconv.FormatInt(int64(math.Ceil(delay.Seconds())), 10))
	}
	if typed.Code() == connect.CodeUnauthenticated {
		header.Set("WWW-Authenticate", `Bearer realm="leat"`)
	}
	status := statusOf(typed.Code())
	if ReasonOf(typed) == errorsv1.Reason_REASON_MESSAGE_TOO_LARGE {
		status = http.StatusRequestEntityTooLarge // the code's own status means "later", which would not help
	}
	w.WriteHeader(status)
	if r.Method == http.MethodHead {
		return
	}
	body := httpError{
		Code: typed.Code().String(), Reason: reasonText(ReasonOf(typed)), Message: typed.Message(), Metadata: Metadata(typed),
	}
	_ = json.NewEncoder(w).Encode(body) // an error means that the client hung up
}

// FromHTTP returns the error of an answer that [WriteHTTP] wrote. If an intermediary answered, it
// makes an error from the status alone. It reads the body but does not close it. An answer below
// 400 gives nil.
func FromHTTP(resp *http.Response) error {
	if resp.StatusCode < http.StatusBadRequest {
		return nil
	}
	opts := retryAfterOf(resp.Header)
	var body httpError
	content, readErr := io.ReadAll(io.LimitReader(resp.Body, maxHTTPBody))
	if readErr != nil || json.Unmarshal(content, &body) != nil || body.Reason == "" {
		return foreign(resp)
	}
	for key, value := range body.Metadata {
		opts = append(opts, With(key, value))
	}
	err := connect.NewWireError(codeNamed(body.Code, resp.StatusCode), errors.New(body.Message))
	return explain(err, parseReason(body.Reason), opts)
}

// foreign returns the error for an answer that no Leat service wrote. Its meaning is guessed from
// its status.
func foreign(resp *http.Response) error {
	code := codeOfStatus(resp.StatusCode)
	reason := reasonOfCode(code)
	if resp.StatusCode == http.StatusTooManyRequests {
		reason = errorsv1.Reason_REASON_RATE_LIMITED
	}
	err := connect.NewWireError(code, fmt.Errorf("server answered %d %s", resp.StatusCode, http.StatusText(resp.StatusCode)))
	return explain(err, reason, retryAfterOf(resp.Header))
}

// retryAfterOf reads the form in seconds. A date would require synchronized clocks.
func retryAfterOf(header http.Header) []Option {
	seconds, err := strconv.ParseUint(header.Get("Retry-After"), 10, 31)
	if err != nil {
		return nil
	}
	return []Option{RetryAfter(time.Duration(seconds) * time.Second)}
}

func codeNamed(name string, status int) connect.Code {
	var code connect.Code
	if err := code.UnmarshalText([]byte(name)); err != nil {
		return codeOfStatus(status)
	}
	return code
}

// statusOf follows the table of the Connect protocol, except that a failed precondition is 409: 400
// would mean to caches and clients that the request itself was malformed.
func statusOf(code connect.Code) int {
	switch code {
	case connect.CodeCanceled:
		return 499 // "client closed request", the number that the Connect protocol and most proxies use
	case connect.CodeInvalidArgument:
		return http.StatusBadRequest
	case connect.CodeOutOfRange:
		return http.StatusRequestedRangeNotSatisfiable
	case connect.CodeDeadlineExceeded:
		return http.StatusGatewayTimeout
	case connect.CodeNotFound:
		return http.StatusNotFound
	case connect.CodeAlreadyExists, connect.CodeAborted, connect.CodeFailedPrecondition:
		return http.StatusConflict
	case connect.CodePermissionDenied:
		return http.StatusForbidden
	case connect.CodeResourceExhausted:
		return http.StatusTooManyRequests
	case connect.CodeUnimplemented:
		return http.StatusNotImplemented
	case connect.CodeUnavailable:
		return http.StatusServiceUnavailable
	case connect.CodeUnauthenticated:
		return http.StatusUnauthorized
	case connect.CodeUnknown, connect.CodeInternal, connect.CodeDataLoss:
	}
	return http.StatusInternalServerError
}

func codeOfStatus(status int) connect.Code {
	switch status {
	case http.StatusBadRequest:
		return connect.CodeInvalidArgument
	case http.StatusUnauthorized:
		return connect.CodeUnauthenticated
	case http.StatusForbidden:
		return connect.CodePermissionDenied
	case http.StatusNotFound:
		return connect.CodeNotFound
	case http.StatusConflict:
		return connect.CodeAborted
	case http.StatusRequestedRangeNotSatisfiable:
		return connect.CodeOutOfRange
	case http.StatusTooManyRequests, http.StatusRequestEntityTooLarge:
		return connect.CodeResourceExhausted
	case http.StatusNotImplemented:
		return connect.CodeUnimplemented
	case http.StatusBadGateway, http.StatusServiceUnavailable:
		return connect.CodeUnavailable
	case http.StatusGatewayTimeout:
		return connect.CodeDeadlineExceeded
	}
	return connect.CodeUnknown
}
