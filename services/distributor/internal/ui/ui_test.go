// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package ui_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"testing/fstest"

	"go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/leatdev/leat/services/distributor/internal/ui"
)

const (
	script = "console.log('leat')"
	host   = "hub.example"
	// elsewhere is the status of requests that are not the UI's.
	elsewhere = 299
)

// build is a build as Vite makes it.
func build() fstest.MapFS {
	return fstest.MapFS{
		"README":     {Data: []byte("notes")},
		"index.html": {Data: []byte(`<!doctype html><meta property="csp-nonce" nonce="LEAT-NONCE"><style nonce="LEAT-NONCE"></style>`)},
		// The page is never sent compressed: its nonce is another one each time.
		"index.html.br":       {Data: []byte("page in brotli")},
		"assets/app-a1.js":    {Data: []byte(script)},
		"assets/app-a1.js.br": {Data: []byte("brotli")},
		"assets/app-a1.js.gz": {Data: zipped(script)},
		"assets/lone.js.gz":   {Data: zipped(script)},
		"assets/logo-b2.svg":  {Data: []byte("<svg/>")},
		"assets/app-a1.exe":   {Data: []byte("not of the web")},
		"favicon.svg":         {Data: []byte("<svg/>")},
		".vite/manifest.json": {Data: []byte("{}")},
	}
}

func zipped(text string) []byte {
	var zipped bytes.Buffer
	w := gzip.NewWriter(&zipped)
	_, _ = io.WriteString(w, text)
	_ = w.Close()
	return zipped.Bytes()
}

// serve returns the handler of a build, before one that answers with elsewhere.
func serve(t *testing.T, files fstest.MapFS) http.Handler {
	t.Helper()
	made, err := ui.New(files, noop.Meter{})
	if err != nil {
		t.Fatal(err)
	}
	return made.Before(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(elsewhere) }))
}

// ask makes a request whose target is written as it is.
func ask(t *testing.T, handler http.Handler, method, target string, headers ...string) *http.Response {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, "http://"+host+target, nil)
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, r)
	return w.Result()
}

func body(t *testing.T, res *http.Response) string {
	t.Helper()
	defer func() { _ = res.Body.Close() }()
	content, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

const filePolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; connect-src 'self' wss://hub.example; " +
	"base-uri 'none'; form-action 'self'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

var nonceOf = regexp.MustCompile(`'nonce-([A-Z2-7]{26})'`)

// TestSecHeadersOfTheUI compares all headers of every kind of answer.
func TestSecHeadersOfTheUI(t *testing.T) {
	t.Parallel()
	built, unbuilt := serve(t, build()), serve(t, fstest.MapFS{"README": {}})
	always := map[string]string{
		"Cross-Origin-Opener-Policy": "same-origin", "Cross-Origin-Resource-Policy": "same-origin", "Referrer-Policy": "no-referrer",
		"Permissions-Policy": "camera=(), geolocation=(), microphone=(), usb=()", "X-Content-Type-Options": "nosniff", "X-Frame-Options": "DENY",
	}
	const forever, html, plain = "public, max-age=31536000, immutable", "text/html; charset=utf-8", "text/plain; charset=utf-8"
	for name, test := range map[string]struct {
		isUnbuilt      bool
		method, target string
		request        []string
		status         int
		cache, media   string
		more           map[string]string
	}{
		"the page":             {target: "/ui/", status: 200, cache: "no-store", media: html},
		"a page below":         {target: "/ui/services/team.web@berlin", status: 200, cache: "no-store", media: html},
		"the page by its name": {target: "/ui/index.html", status: 200, cache: "no-store", media: html},
		"HEAD of the page":     {method: "HEAD", target: "/ui/problems", status: 200, cache: "no-store", media: html},
		"a script":             {target: "/ui/assets/app-a1.js", status: 200, cache: forever, media: "text/javascript; charset=utf-8", more: map[string]string{"Vary": "Accept-Encoding", "Content-Encoding": ""}},
		"a script in brotli": {
			target: "/ui/assets/app-a1.js", request: []string{"Accept-Encoding", "gzip, deflate, br, zstd"}, status: 200, cache: forever,
			media: "text/javascript; charset=utf-8", more: map[string]string{"Vary": "Accept-Encoding", "Content-Encoding": "br", "Content-Length": "6"},
		},
		"an image":           {target: "/ui/assets/logo-b2.svg", status: 200, cache: forever, media: "image/svg+xml"},
		"a file with a name": {target: "/ui/favicon.svg", status: 200, cache: "no-cache", media: "image/svg+xml"},
		"a missing asset":    {target: "/ui/assets/app-z9.js", request: []string{"Accept", "text/html"}, status: 404, cache: "no-store", media: plain},
		"a missing file":     {target: "/ui/robots.txt", status: 404, cache: "no-store", media: plain},
		"another method":     {method: "POST", target: "/ui/", status: 405, media: plain, more: map[string]string{"Allow": "GET, HEAD"}},
		"a long path":        {target: "/ui/" + strings.Repeat("a", 4096), status: 414, media: plain},
		"no encoding":        {target: "/ui/favicon.svg", request: []string{"Accept-Encoding", "identity;q=0, gzip"}, status: 406, media: plain},
		"a visit to the hub": {target: "/", request: []string{"Accept", "text/html,*/*;q=0.8"}, status: 307, cache: "no-store", more: map[string]string{"Location": "/ui/"}},
		"no slash":           {target: "/ui", status: 307, cache: "no-store", more: map[string]string{"Location": "/ui/"}},
		"without a build":    {isUnbuilt: true, target: "/ui/problems", status: 404, cache: "no-store", media: html},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			handler := built
			if test.isUnbuilt {
				handler = unbuilt
			}
			if test.method == "" {
				test.method = http.MethodGet
			}
			res := ask(t, handler, test.method, test.target, test.request...)
			content := body(t, res)
			if res.StatusCode != test.status || res.Header.Get("Cache-Control") != test.cache || res.Header.Get("Content-Type") != test.media {
				t.Errorf("got %d, %q, %q, want %d, %q, %q", res.StatusCode, res.Header.Get("Cache-Control"), res.Header.Get("Content-Type"), test.status, test.cache, test.media)
			}
			for _, want := range []map[string]string{always, test.more} {
				for key, value := range want {
					if got := res.Header.Get(key); got != value {
						t.Errorf("got %s: %q, want %q", key, got, value)
					}
				}
			}
			policy, want := res.Header.Get("Content-Security-Policy"), filePolicy
			switch {
			case test.isUnbuilt:
				want = regexp.MustCompile(`'sha256-[^']+'`).FindString(policy)
				want = "default-src 'none'; style-src " + want + "; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
			case test.media == html:
				found := nonceOf.FindStringSubmatch(policy)
				if found == nil {
					t.Fatalf("got %q, want a nonce", policy)
				}
				if test.method != http.MethodHead && (strings.Count(content, found[1]) != 2 || strings.Contains(content, "LEAT-NONCE")) {
					t.Errorf("got %q, want the nonce of the header", content)
				}
				want = strings.Replace(want, "style-src 'self'", "style-src 'self' "+found[0], 1)
			}
			if policy != want {
				t.Errorf("got policy\n%s\nwant\n%s", policy, want)
			}
			if test.method == http.MethodHead && content != "" {
				t.Errorf("got %q for HEAD", content)
			}
		})
	}
}

// TestSecNonceIsNew reads the page twice.
func TestSecNonceIsNew(t *testing.T) {
	t.Parallel()
	handler, seen := serve(t, build()), map[string]bool{}
	for range 100 {
		seen[ask(t, handler, "GET", "/ui/").Header.Get("Content-Security-Policy")] = true
	}
	if len(seen) != 100 {
		t.Errorf("got %d policies for 100 answers", len(seen))
	}
}

// TestSecUIPathsAreNoFiles asks for files outside of the build, in every spelling, and for those of
// the build that are not for browsers.
func TestSecUIPathsAreNoFiles(t *testing.T) {
	t.Parallel()
	handler := serve(t, build())
	for _, target := range []string{
		"/ui/../ui.go", "/ui/..%2fui.go", "/ui/%2e%2e/ui.go", "/ui/assets/../../ui.go", "/ui/assets/..", "/ui//etc/passwd", "/ui/./README", "/ui/..",
		"/ui/a/%2e%2e%2f%2e%2e%2fetc%2fpasswd", "/ui/..%5c..%5cetc", "/ui/a%00.js", "/ui/%00", "/ui/assets//app-a1.js", "/ui/assets/", "/ui/assets/app-a1.js/",
		"/ui/assets/app-a1.js.br", "/ui/assets/app-a1.js.gz", "/ui/assets/app-a1.exe", "/ui/assets/lone.js", "/ui/.vite/manifest.json", "/ui/index.html/..",
		"/ui/assets/app-a1.js.map", "/ui/app.map",
	} {
		if res := ask(t, handler, "GET", target); res.StatusCode != http.StatusNotFound || strings.Contains(body(t, res), "notes") {
			t.Errorf("%s: got %d, want 404", target, res.StatusCode)
		}
	}
	for _, target := range []string{"/ui/README", "/ui/.vite", "/ui/etc/passwd"} {
		if res := ask(t, handler, "GET", target); res.StatusCode != http.StatusOK || !strings.Contains(body(t, res), "csp-nonce") {
			t.Errorf("%s: got %d, want the page, which shows that there is nothing", target, res.StatusCode)
		}
	}
	for target, headers := range map[string][]string{
		"/":                                  {"Accept", "*/*"},
		"/uix":                               nil,
		"/UI/":                               nil,
		"//ui/":                              nil,
		"/clusters/berlin/ui/":               nil,
		"/leat.fleet.v1.FleetService/GetUI/": nil,
		"/?":                                 {"Accept", "text/html", "Sec-Fetch-Dest", "empty"},
	} {
		if res := ask(t, handler, "GET", target, headers...); res.StatusCode != elsewhere {
			t.Errorf("%s: got %d, want it to be passed on", target, res.StatusCode)
		}
	}
	if res := ask(t, handler, "POST", "/", "Accept", "text/html"); res.StatusCode != elsewhere {
		t.Errorf("POST: got %d, want it to be passed on", res.StatusCode)
	}
}

// TestSecHostsInThePolicy sends hosts that would add to the policy, if they were copied into it.
func TestSecHostsInThePolicy(t *testing.T) {
	t.Parallel()
	handler := serve(t, build())
	const start, end = "connect-src 'self'", "; base-uri 'none'"
	for host, want := range map[string]string{
		"hub.example":                       " wss://hub.example",
		"hub.example:8443":                  " wss://hub.example:8443",
		"leat.localhost:8700":               " wss://leat.localhost:8700 ws://leat.localhost:8700",
		"127.0.0.1:8700":                    " wss://127.0.0.1:8700 ws://127.0.0.1:8700",
		"127.0.0.1.evil.example":            " wss://127.0.0.1.evil.example",
		"localhost.evil.example":            " wss://localhost.evil.example",
		"[::1]:8700":                        "",
		"hub.example; script-src *":         "",
		"hub.example *":                     "",
		"*":                                 "",
		"*.example":                         "",
		"hub.example,default-src *":         "",
		"hub.example/":                      "",
		"hub.example:80:80":                 "",
		"hub.example\r\nX: y":               "",
		"":                                  "",
		"-":                                 "",
		"'unsafe-eval'":                     "",
		strings.Repeat("a", 300):            "",
		"hub.example:":                      "",
		"user@hub.example":                  "",
		"hub.example%3bscript-src":          "",
		"hub.example:443 https://evil.test": "",
	} {
		r := httptest.NewRequestWithContext(t.Context(), "GET", "/ui/", nil)
		r.Host = host
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		_, after, _ := strings.Cut(w.Header().Get("Content-Security-Policy"), start)
		if got, _, ok := strings.Cut(after, end); !ok || got != want {
			t.Errorf("%q: got %q, want %q", host, got, want)
		}
	}
}

func TestEncodings(t *testing.T) {
	t.Parallel()
	handler := serve(t, build())
	for accepted, want := range map[string]string{
		"": "", "gzip": "gzip", "br": "br", "br, gzip": "br", "br;q=0.1, gzip;q=0.9": "gzip", "br;q=0": "", "*": "br", "*;q=0": "refused",
		"identity": "", "zstd": "", "gzip;q=x": "", "identity;q=0": "refused", "identity;q=1, gzip;q=0.5": "", "GZIP": "gzip",
	} {
		res := ask(t, handler, "GET", "/ui/assets/app-a1.js", "Accept-Encoding", accepted)
		got := res.Header.Get("Content-Encoding")
		if res.StatusCode == http.StatusNotAcceptable {
			got = "refused"
		}
		if got != want {
			t.Errorf("%q: got %q, want %q", accepted, got, want)
		}
		if content := body(t, res); got == "gzip" {
			plain, err := gzip.NewReader(strings.NewReader(content))
			if err != nil {
				t.Fatal(err)
			}
			if text, err := io.ReadAll(plain); err != nil || string(text) != script {
				t.Errorf("got %q, %v", text, err)
			}
		}
	}
}

// TestUnchangedFiles asks again for files that a browser has.
func TestUnchangedFiles(t *testing.T) {
	t.Parallel()
	handler := serve(t, build())
	tags := map[string]string{}
	for _, coding := range []string{"br", "gzip", "identity"} {
		tags[coding] = ask(t, handler, "GET", "/ui/assets/app-a1.js", "Accept-Encoding", coding).Header.Get("ETag")
	}
	if tags["br"] == tags["gzip"] || tags["gzip"] == tags["identity"] || tags["br"] == "" {
		t.Errorf("got %v, want a tag for each encoding", tags)
	}
	for sent, want := range map[string]int{
		tags["gzip"]: 304, "W/" + tags["gzip"]: 304, `"other", ` + tags["gzip"]: 304, "*": 304, tags["br"]: 200, `"other"`: 200,
	} {
		for _, method := range []string{"GET", "HEAD"} {
			res := ask(t, handler, method, "/ui/assets/app-a1.js", "Accept-Encoding", "gzip", "If-None-Match", sent)
			if res.StatusCode != want || want == 304 && body(t, res) != "" {
				t.Errorf("%s with %s: got %d, want %d", method, sent, res.StatusCode, want)
			}
		}
	}
	// The page always comes with a new nonce.
	if res := ask(t, handler, "GET", "/ui/", "If-None-Match", "*"); res.StatusCode != 200 || res.Header.Get("ETag") != "" {
		t.Errorf("got %d, want the page", res.StatusCode)
	}
}

func TestPageWithoutABuild(t *testing.T) {
	t.Parallel()
	made, err := ui.New(fstest.MapFS{"README": {}}, noop.Meter{})
	if err != nil || made.IsBuilt() {
		t.Fatalf("got built %v, %v", made.IsBuilt(), err)
	}
	if text := body(t, ask(t, made.Before(http.NotFoundHandler()), "GET", "/ui/")); !strings.Contains(text, "make ui") {
		t.Errorf("got %q, want how to make a build", text)
	}
	embedded, err := ui.Embedded()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ui.New(embedded, noop.Meter{}); err != nil {
		t.Errorf("what this program embeds: %v", err)
	}
}

func TestAnswersAreCounted(t *testing.T) {
	t.Parallel()
	reader := metric.NewManualReader()
	made, err := ui.New(build(), metric.NewMeterProvider(metric.WithReader(reader)).Meter("test"))
	if err != nil {
		t.Fatal(err)
	}
	handler := made.Before(http.NotFoundHandler())
	ask(t, handler, "GET", "/ui/")
	ask(t, handler, "GET", "/ui/assets/app-a1.js")
	ask(t, handler, "GET", "/ui/assets/app-a1.js", "If-None-Match", "*")
	ask(t, handler, "GET", "/ui/assets/none.js")
	ask(t, handler, "DELETE", "/ui/")
	var collected metricdata.ResourceMetrics
	if err := reader.Collect(context.Background(), &collected); err != nil {
		t.Fatal(err)
	}
	got := map[string]int64{}
	for _, point := range collected.ScopeMetrics[0].Metrics[0].Data.(metricdata.Sum[int64]).DataPoints {
		kind, _ := point.Attributes.Value("kind")
		got[kind.AsString()] = point.Value
	}
	for _, kind := range []string{"page", "file", "unchanged", "missing", "refused"} {
		if got[kind] != 1 {
			t.Errorf("got %d of %s, want 1", got[kind], kind)
		}
	}
}
