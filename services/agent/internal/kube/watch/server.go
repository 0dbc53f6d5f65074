// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package watch

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/leatdev/leat/internal/kit/backoff"
)

// Server is an API server. It records which of the servers behind it do not support streaming
// lists. It is safe for concurrent use, and all Watchers that use the same credentials share one.
type Server struct {
	base   *url.URL
	client *http.Client

	plain sync.Map // API groups whose lists are read page by page
}

// NewServer returns the API server at base. The client authenticates, and has no timeout of its
// own.
func NewServer(base *url.URL, client *http.Client) *Server {
	return &Server{base: base, client: client}
}

// Base returns the address of the server.
func (s *Server) Base() *url.URL { return s.base }

// canStream reports whether a group's lists may be requested as streams. Each group can have a
// server of its own.
func (s *Server) canStream(group string) bool {
	_, isPlain := s.plain.Load(group)
	return !isPlain
}

// setPlain records that the group's server does not support streaming lists.
func (s *Server) setPlain(group string) {
	s.plain.Store(group, true)
}

const (
	acceptObjects  = "application/json"
	acceptMetadata = "application/json;as=%s;g=meta.k8s.io;v=v1"
)

// get requests a collection. The caller closes the body. For an answer other than 200 it returns an
// *apierrors.StatusError, with the server's Retry-After as backoff.RetryAfter.
func (s *Server) get(ctx context.Context, collection Collection, query url.Values, accept string) (io.ReadCloser, error) {
	address := s.address(collection)
	address.RawQuery = query.Encode()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address.String(), nil)
	if err != nil {
		return nil, fmt.Errorf("make request: %w", err)
	}
	request.Header.Set("Accept", accept)
	response, err := s.client.Do(request)
	if err != nil {
		return nil, fmt.Errorf("ask API server: %w", err)
	}
	if response.StatusCode == http.StatusOK {
		return response.Body, nil
	}
	defer response.Body.Close()
	return nil, refusal(response)
}

func (s *Server) address(collection Collection) *url.URL {
	resource := collection.Resource
	base := s.base.JoinPath("apis", resource.Group, resource.Version)
	if resource.Group == "" {
		base = s.base.JoinPath("api", resource.Version)
	}
	if collection.Namespace != "" {
		base = base.JoinPath("namespaces", collection.Namespace)
	}
	return base.JoinPath(resource.Resource)
}

// maxRefusal is longer than any error message that a person would read.
const maxRefusal = 64 << 10

// refusal returns the error in a response.
func refusal(response *http.Response) error {
	text, _ := io.ReadAll(io.LimitReader(response.Body, maxRefusal)) // the readable part is enough for a message
	var status metav1.Status
	if json.Unmarshal(text, &status) != nil || status.Kind != "Status" {
		status = metav1.Status{Message: string(text)}
	}
	status.Code = cmp.Or(status.Code, int32(response.StatusCode))
	status.Reason = cmp.Or(status.Reason, reasonOf(response.StatusCode))
	return withHint(&apierrors.StatusError{ErrStatus: status}, response.Header.Get("Retry-After"))
}

// reasonOf returns the reason for a status code, for servers that send no reason.
func reasonOf(code int) metav1.StatusReason {
	switch code {
	case http.StatusForbidden:
		return metav1.StatusReasonForbidden
	case http.StatusNotFound:
		return metav1.StatusReasonNotFound
	case http.StatusMethodNotAllowed:
		return metav1.StatusReasonMethodNotAllowed
	case http.StatusGone:
		return metav1.StatusReasonExpired
	default:
		return metav1.StatusReasonUnknown
	}
}

// maxHint is the longest pause that a server can demand.
const maxHint = 5 * time.Minute

// withHint adds the pause that the server demands.
func withHint(err *apierrors.StatusError, header string) error {
	seconds, told := apierrors.SuggestsClientDelay(err)
	if fromHeader, parsed := strconv.Atoi(header); parsed == nil {
		seconds, told = fromHeader, true
	}
	if !told || seconds <= 0 {
		return err
	}
	return backoff.RetryAfter(err, time.Duration(min(seconds, int(maxHint.Seconds())))*time.Second)
}
