// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package prometheus_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/services/agent/internal/metrics"
	"github.com/leatdev/leat/services/agent/internal/prometheus"
)

const name = "monitoring/prometheus:9090"

var window = metrics.Window{Start: time.Unix(1000, 0), End: time.Unix(1060, 0), Step: 30 * time.Second}

// query asks a server that answers like this.
func query(t *testing.T, answer http.HandlerFunc) ([]metrics.Series, error) {
	t.Helper()
	server := httptest.NewServer(answer)
	t.Cleanup(server.Close)
	at, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	client := prometheus.New(server.Client().Transport, func(service string) (*url.URL, error) {
		if service != name {
			return nil, errors.New("another service")
		}
		return at, nil
	})
	return client.QueryRange(t.Context(), name, `up{a="&b"}`, window)
}

func say(code int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(code)
		_, _ = io.WriteString(w, body)
	}
}

func matrix(result string) string {
	return `{"status":"success","data":{"resultType":"matrix","result":[` + result + `]},"warnings":["x"]}`
}

func TestQueryRange(t *testing.T) {
	t.Parallel()
	got, err := query(t, func(w http.ResponseWriter, r *http.Request) {
		want := url.Values{"query": {`up{a="&b"}`}, "start": {"1000.000"}, "end": {"1060.000"}, "step": {"30"}, "timeout": {"20s"}}
		if err := r.ParseForm(); err != nil || r.Method != http.MethodPost || r.URL.Path != "/api/v1/query_range" || !cmp.Equal(r.PostForm, want) ||
			r.Header.Get("Authorization") != "" {
			t.Errorf("got %s %s %v %v", r.Method, r.URL, r.PostForm, err)
		}
		say(200, matrix(`{"metric":{"namespace":"shop","pod":"cart-1","container":"web","other":"x"},"values":[[1000,"1.5"],[1030.25,"NaN"],[1060,"+Inf"]]},`+
			`{"metric":{"pod":"lone"},"values":[]}`))(w, r)
	})
	if err != nil || len(got) != 2 || len(got[0].Points) != 3 {
		t.Fatalf("got %v, %v", got, err)
	}
	got[0].Points = got[0].Points[:1]
	want := metrics.Series{Namespace: "shop", Pod: "cart-1", Container: "web", Points: []metrics.Point{{Time: time.UnixMilli(1_000_000), Value: 1.5}}}
	if diff := cmp.Diff(want, got[0]); diff != "" {
		t.Errorf("series (-want +got):\n%s", diff)
	}
}

// TestSecHostilePrometheus has servers that answer with anything else. None of it passes but a short text.
func TestSecHostilePrometheus(t *testing.T) {
	t.Parallel()
	stolen := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("a redirect was followed") }))
	t.Cleanup(stolen.Close)
	long := strings.Repeat("x", 1000)
	for what, test := range map[string]struct {
		answer http.HandlerFunc
		want   string
	}{
		"not JSON":             {say(200, "<html>"), "not series"},
		"a refusal":            {say(422, `{"status":"error","errorType":"execution","error":"query processing would load too many samples"}`), "answered 422: query processing would load too many samples"},
		"a refusal in HTML":    {say(502, "<html>secret</html>"), "answered 502"},
		"control characters":   {say(400, `{"error":"a\u001b[31m\nb\u202e"}`), "answered 400: a [31m b "},
		"a long refusal":       {say(500, `{"error":"`+long+`"}`), "answered 500: xxx"},
		"no content":           {say(204, ""), "answered 204"},
		"a vector":             {say(200, `{"status":"success","data":{"resultType":"vector","result":[]}}`), "not series"},
		"a wrong type":         {say(200, matrix(`{"metric":[],"values":[]}`)), "not series"},
		"a number as a label":  {say(200, matrix(`{"metric":{"pod":7},"values":[]}`)), "not series"},
		"a number as a figure": {say(200, matrix(`{"metric":{},"values":[[1,1]]}`)), "not a time and a text"},
		"a text as a time":     {say(200, matrix(`{"metric":{},"values":[["1","1"]]}`)), "not a time and a text"},
		"a time far away":      {say(200, matrix(`{"metric":{},"values":[[1e300,"1"]]}`)), "not a time and a text"},
		"no figure":            {say(200, matrix(`{"metric":{},"values":[[1,"one"]]}`)), "not a number"},
		"points out of order":  {say(200, matrix(`{"metric":{},"values":[[2,"1"],[1,"1"]]}`)), "not in order"},
		"half a point":         {say(200, matrix(`{"metric":{},"values":[[1]]}`)), "not a time and a text"},
		"an empty point":       {say(200, matrix(`{"metric":{},"values":[[null,null]]}`)), "not a time and a text"},
		"a map of points":      {say(200, matrix(`{"metric":{},"values":{"a":1}}`)), "no list"},
		"a huge label":         {say(200, matrix(`{"metric":{"pod":"`+long+`"},"values":[]}`)), "longer than names"},
		"many points":          {say(200, matrix(`{"metric":{},"values":[`+points(9000)+`]}`)), "more than the 501"},
		"many series":          {say(200, matrix(strings.Repeat(`{},`, 3000)+`{}`)), "more than 2000 series"},
		"deep nesting":         {say(200, strings.Repeat("[", 100_000)), "not series"},
		"a redirect": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, stolen.URL, http.StatusTemporaryRedirect)
		}, "answered 307"},
		"no end": {func(w http.ResponseWriter, r *http.Request) {
			for r.Context().Err() == nil {
				if _, err := io.WriteString(w, long); err != nil {
					return
				}
			}
		}, "more than 8 MiB"},
		"a cut answer": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			_, _ = io.WriteString(w, "{")
		}, "ended its answer"},
		"no answer": {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, "does not answer"},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			got, err := query(t, test.answer)
			problem := reason.ProblemOf(err)
			if got != nil || problem.Reason != reason.MetricsUnavailable || !strings.Contains(problem.Message, test.want) ||
				!strings.Contains(problem.Message, name) || len(problem.Message) > 400 || strings.ContainsAny(problem.Message, "\x1b\n\u202e") || strings.Contains(problem.Message, "127.0.0.1") {
				t.Errorf("got %v, %v, want METRICS_UNAVAILABLE with %q", got, err, test.want)
			}
		})
	}
}

func TestSlowAnswersEndWithTheCaller(t *testing.T) {
	t.Parallel()
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		<-ctx.Done()
		return nil, context.Cause(ctx)
	}}
	client := prometheus.New(transport, func(string) (*url.URL, error) {
		return &url.URL{Scheme: "http", Host: "prometheus.monitoring.svc:9090"}, nil
	})
	ctx, cancel := context.WithDeadline(t.Context(), time.Now())
	defer cancel()
	_, err := client.QueryRange(ctx, name, "up", window)
	if problem := reason.ProblemOf(err); problem.Reason != reason.MetricsUnavailable || !strings.Contains(problem.Message, "took too long") {
		t.Errorf("got %v, want METRICS_UNAVAILABLE", err)
	}
	final := reason.Errorf(reason.MetricsNotConfigured, "not allowed")
	refusing := prometheus.New(transport, func(string) (*url.URL, error) { return nil, final })
	if _, err := refusing.QueryRange(t.Context(), name, "up", window); !errors.Is(err, final) {
		t.Errorf("got %v, want the error of the list", err)
	}
}

// points returns so many points in order.
func points(n int) string {
	all := make([]string, n)
	for i := range all {
		all[i] = fmt.Sprintf(`[%d,"1"]`, i)
	}
	return strings.Join(all, ",")
}

// TestSecLongAnswersCostNoMemory has answers of millions of items, each of a few bytes, which would be hundreds of
// megabytes as Go's values.
func TestSecLongAnswersCostNoMemory(t *testing.T) {
	for what, body := range map[string]string{
		"series": matrix(strings.Repeat("{},", 2_500_000) + "{}"),
		"points": matrix(`{"metric":{},"values":[` + strings.Repeat("[],", 2_500_000) + `[]]}`),
		"nulls":  matrix(`{"metric":{},"values":[` + strings.Repeat("null,", 1_500_000) + `null]}`),
	} {
		client := prometheus.New(canned(body), func(string) (*url.URL, error) { return &url.URL{Scheme: "http", Host: "a"}, nil })
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := client.QueryRange(t.Context(), name, "up", window)
		runtime.ReadMemStats(&after)
		if got, most := after.TotalAlloc-before.TotalAlloc, uint64(8*len(body)); err == nil || got > most {
			t.Errorf("%s: %d bytes were allocated for %d, want an error and at most %d", what, got, len(body), most)
		}
	}
}

// FuzzAnswer reads any answer without a panic.
func FuzzAnswer(f *testing.F) {
	f.Add([]byte(matrix(`{"metric":{"pod":"a"},"values":[[1,"1"]]}`)))
	f.Add([]byte(`{"status":"success","data":{"resultType":"matrix","result":[{"values":null}]}}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		client := prometheus.New(canned(body), func(string) (*url.URL, error) { return &url.URL{Scheme: "http", Host: "a"}, nil })
		all, err := client.QueryRange(t.Context(), name, "up", window)
		if err != nil && all != nil {
			t.Error("got series and an error")
		}
	})
}

// canned answers every request with it.
type canned []byte

func (c canned) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(string(c)))}, nil
}
