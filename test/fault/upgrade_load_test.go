// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package fault_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"

	"github.com/leatdev/leat/internal/kit/childproc"
	"github.com/leatdev/leat/internal/testkit/await"
)

// reader is a person's program that asks two replicas in turn, while these are replaced. It does
// what a careful client may do: where an answer permits a retry, it asks the other replica, once.
type reader struct {
	name  string
	calls [2]func(ctx context.Context) error
	// isExcused reports whether a failure is to be expected now. Nil: none ever is.
	isExcused func(err error) bool

	mu       sync.Mutex
	answers  int
	retries  int
	failures []string
}

// read asks until ctx is done.
func (r *reader) read(ctx context.Context) {
	for turn := 0; ctx.Err() == nil; turn++ {
		err, isRetry := r.calls[turn%2](ctx), false
		if canRetry(err) {
			isRetry = true
			if again := r.calls[(turn+1)%2](ctx); again != nil {
				err = fmt.Errorf("%w; then at the other replica: %w", err, again)
			} else {
				err = nil
			}
		}
		if ctx.Err() == nil {
			r.take(err, isRetry)
		}
		rest(ctx, 20*time.Millisecond)
	}
}

func (r *reader) take(err error, isRetry bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case err == nil:
		r.answers++
	case r.isExcused == nil || !r.isExcused(err):
		r.failures = append(r.failures, r.name+": "+err.Error())
	}
	if isRetry {
		r.retries++
	}
}

// count returns the number of answers so far, and the failures.
func (r *reader) count() (answers, retries int, failures []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.answers, r.retries, append([]string(nil), r.failures...)
}

// refusal is an answer of HTTP that is not 200.
type refusal struct {
	status    int
	body      string
	saysRetry bool // has a Retry-After
}

func (r *refusal) Error() string { return fmt.Sprintf("status %d: %s", r.status, r.body) }

// errNoAnswer is in the chain of the error of a request that a replica has not answered.
var errNoAnswer = errors.New("no answer")

// canRetry reports whether a program may make a read again after this error: clients of Connect do
// after unavailable, and clients of Kubernetes after a broken connection or a Retry-After.
func canRetry(err error) bool {
	var refused *refusal
	return errors.Is(err, errNoAnswer) || connect.CodeOf(err) == connect.CodeUnavailable || errors.As(err, &refused) && refused.saysRetry
}

// fetch makes a GET as a person, and returns the answer's body.
func fetch(ctx context.Context, client *http.Client, url, token string) (string, error) {
	response, err := open(ctx, client, url, token)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return "", fmt.Errorf("%w: %w", errNoAnswer, err)
	}
	return string(body), nil
}

// open makes a GET as a person. The caller closes the body.
func open(ctx context.Context, client *http.Client, url, token string) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return nil, err
	}
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	response, err := client.Do(request)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errNoAnswer, err)
	}
	if response.StatusCode != http.StatusOK {
		defer response.Body.Close()
		body, _ := io.ReadAll(response.Body)
		return nil, &refusal{status: response.StatusCode, body: string(body), saysRetry: response.Header.Get("Retry-After") != ""}
	}
	return response, nil
}

// configMap holds the fields that the tests read of a ConfigMap, and of a list.
type configMap struct {
	Metadata struct{ ResourceVersion string }
	Data     map[string]string
}

// viewer watches the ConfigMap that every commit changes, as kubectl and informers do: when its watch
// ends, it continues at the version that it has seen.
type viewer struct {
	url   string // of the ConfigMaps of a namespace
	token func() string

	mu       sync.Mutex
	numbers  []int
	watches  int
	failures []string
}

// view watches until ctx is done.
func (v *viewer) view(ctx context.Context) {
	version := ""
	for ctx.Err() == nil {
		next, err := v.watch(ctx, version)
		version = next
		if err != nil && ctx.Err() == nil {
			v.mu.Lock()
			v.failures = append(v.failures, "watch: "+err.Error())
			v.mu.Unlock()
		}
		rest(ctx, 20*time.Millisecond)
	}
}

// watch follows one watch from a version to its end, and returns the version that it has come to. The
// end of a watch is no error, and neither is a refusal while its agent is replaced.
func (v *viewer) watch(ctx context.Context, version string) (reached string, err error) {
	query := "?watch=true&fieldSelector=metadata.name%3Dserial&timeoutSeconds=600&resourceVersion=" + version
	response, err := open(ctx, http.DefaultClient, v.url+query, v.token())
	var refused *refusal
	switch {
	case errors.As(err, &refused) && refused.status == http.StatusServiceUnavailable, errors.Is(err, errNoAnswer):
		return version, nil
	case err != nil:
		return version, err
	}
	defer response.Body.Close()
	v.mu.Lock()
	v.watches++
	v.mu.Unlock()
	for decoder := json.NewDecoder(bufio.NewReader(response.Body)); ; {
		var event struct {
			Type   string
			Object configMap
		}
		if err := decoder.Decode(&event); err != nil {
			return version, nil // watches end, and another one continues
		}
		if event.Type != "ADDED" && event.Type != "MODIFIED" {
			return version, fmt.Errorf("got the event %s at version %s: %v", event.Type, version, event.Object)
		}
		version = event.Object.Metadata.ResourceVersion
		number, err := strconv.Atoi(event.Object.Data["number"])
		if err != nil {
			return version, err
		}
		v.mu.Lock()
		v.numbers = append(v.numbers, number)
		v.mu.Unlock()
	}
}

// seen returns the numbers of the commits, in the order in which the watch brought them.
func (v *viewer) seen() (numbers []int, watches int, failures []string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return append([]int(nil), v.numbers...), v.watches, append([]string(nil), v.failures...)
}

// session is a kubectl exec of cat, which repeats each line.
type session struct {
	in    io.Writer
	lines <-chan string
	sent  int
}

// openSession waits until a session is open.
func openSession(t *testing.T, kubectl, kubeconfig string) *session {
	t.Helper()
	var opened *session
	await.Poll(t, "a session of kubectl exec", pause, func() (bool, string) {
		command := exec.Command(kubectl, "--kubeconfig", kubeconfig, "exec", "-i", "box", "--", "cat")
		said := &strings.Builder{}
		command.Stderr = said
		pipes, ended, err := childproc.StartPiped(command)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_ = command.Process.Kill()
			<-ended
			_ = pipes.Close()
		})
		lines := make(chan string, 1) // the answer to the line that was sent
		go func() {
			defer close(lines)
			for scanner := bufio.NewScanner(pipes.Out); scanner.Scan(); {
				lines <- scanner.Text()
			}
		}()
		opened = &session{in: pipes.In, lines: lines}
		if opened.answers(t) {
			return true, ""
		}
		<-ended
		return false, said.String()
	})
	return opened
}

// answers sends a line, and reports whether it came back. It did not if the session has ended.
func (s *session) answers(t *testing.T) bool {
	t.Helper()
	s.sent++
	if _, err := fmt.Fprintln(s.in, s.sent); err != nil {
		return false
	}
	ctx := await.Context(t)
	select {
	case line, isOpen := <-s.lines:
		if isOpen && line != strconv.Itoa(s.sent) {
			t.Errorf("a session of kubectl exec: got %q, want %d", line, s.sent)
		}
		return isOpen
	case <-ctx.Done():
		t.Fatal("waited in vain for a line of a session")
	}
	return false
}
