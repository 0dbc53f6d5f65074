// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package tunnel_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
)

// ask is a random request.
type ask struct {
	n           int
	version     string // of HTTP: 1 or 2
	method      string
	path, query string
	mark        bool // "?" even without a query
	header      http.Header
	body        []byte
	length      int64 // as announced; -1 for none
	expect      bool
	answer      *reply
}

// String describes the case for people.
func (a *ask) String() string {
	return fmt.Sprintf("HTTP/%s %s %q ?%q header %d, body %d announced %d, expect %t; answer %+v",
		a.version, a.method, a.path, a.query, len(a.header), len(a.body), a.length, a.expect, a.answer)
}

// reply is a random answer.
type reply struct {
	status     int
	header     http.Header
	size       int
	announced  bool // with Content-Length
	flushes    int
	trailer    http.Header
	unforeseen bool // trailers that were not announced
	hints      int  // 103 answers before
	reads      int  // how much of the request's body is read first: 0 none, 1 a part, 2 all
	aborts     bool
	random     uint64
}

func pick[T any](random *rand.Rand, from ...T) T { return from[random.IntN(len(from))] }

// newAsk returns the request of case n.
func newAsk(n int) *ask {
	random := rand.New(rand.NewPCG(uint64(n), 37))
	a := &ask{
		n: n, version: pick(random, "1", "2"),
		method: pick(random, "GET", "GET", "GET", "HEAD", "POST", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "PROPFIND"),
		path:   randomPath(random), query: randomQuery(random), header: randomHeader(random), length: 0,
	}
	a.mark = a.query == "" && random.IntN(5) == 0
	if a.method != "GET" && a.method != "HEAD" && random.IntN(4) > 0 {
		a.body = noise(random, pick(random, 0, 1, 100, 5_000, 70_000, 300_000))
		a.length = int64(len(a.body))
		if random.IntN(2) == 0 {
			a.length = -1
		}
		a.expect = len(a.body) > 0 && random.IntN(3) == 0
	}
	a.answer = newReply(random, a)
	return a
}

func randomPath(random *rand.Rand) string {
	var path strings.Builder
	for range random.IntN(5) {
		path.WriteString("/" + pick(random, "pods", "a%2Fb", "%e2%82%ac", "%E2%82%AC", "", "a+b", "~me", "x;y", "x:y", "a@b", "%25", "*", "(a)",
			"a%20b", "$x", "a,b", "a=b", "a&b", "'q'", "%2e%2e%2e", "...", "UPPER", "%41"))
	}
	return path.String()
}

func randomQuery(random *rand.Rand) string {
	var parts []string
	for range random.IntN(5) {
		parts = append(parts, pick(random, "a=1", "a=2", "b", "c=", "=d", "e=%2F", "f=%zz", "g=x+y", "h=x%20y", "i=a;b", "j=%e2%82%ac", "labelSelector=app%3Dweb,tier%20in%20(a)", "", "k==", "l=?", "m=/"))
	}
	return strings.Join(parts, "&")
}

func randomHeader(random *rand.Rand) http.Header {
	header := http.Header{}
	for range random.IntN(8) {
		name := pick(random, "Accept", "Accept-Encoding", "X-Odd", "X-Empty", "If-None-Match", "If-Modified-Since", "If-Match", "Range",
			"User-Agent", "X-Large", "Via", "Warning", "Cache-Control", "Content-Type", "X-Under_score", "Kubectl-Command", "Origin", "Referer",
			"Accept-Language", "Audit-Id", "Dnt", "X-Tab", "Content-Encoding")
		value := pick(random, "", "a", "a, b", "text/plain;q=0.5, */*", "gzip", "identity;q=0, *", `"etag", W/"weak"`, "bytes=0-9",
			"Wed, 21 Oct 2015 07:28:00 GMT", "\xe4\xf6", "\xe2\x82\xac", "x\ty", strings.Repeat("long ", random.IntN(3000)))
		if random.IntN(3) == 0 {
			header[name] = append(header[name], value)
		} else {
			header[name] = []string{value}
		}
	}
	return header
}

// request returns the request for one way. The number and the way are in the path, where the double
// finds them.
func (a *ask) request(ctx context.Context, base, way string) (*http.Request, error) {
	u, err := opaque(base, doublePrefix+"fidelity/"+strconv.Itoa(a.n)+"/"+way+a.path, a.query, a.mark)
	if err != nil {
		return nil, err
	}
	request := (&http.Request{Method: a.method, URL: u, Host: u.Host, Header: a.header.Clone()}).WithContext(ctx)
	if a.expect {
		request.Header.Set("Expect", "100-continue")
	}
	if a.body != nil {
		request.Body, request.ContentLength = io.NopCloser(bytes.NewReader(a.body)), a.length
	}
	return request, nil
}

func newReply(random *rand.Rand, a *ask) *reply {
	p := &reply{
		status: pick(random, 200, 200, 200, 200, 201, 202, 204, 206, 301, 304, 307, 400, 401, 403, 404, 409, 410, 413, 418, 422, 429, 500, 503, 599),
		header: http.Header{}, size: pick(random, 0, 1, 200, 3_000, 40_000, 300_000), announced: random.IntN(2) == 0,
		flushes: random.IntN(3), hints: random.IntN(8) / 6, reads: pick(random, 2, 2, 2, 1, 0), random: random.Uint64(),
	}
	for range random.IntN(7) {
		name := pick(random, "Content-Type", "Etag", "Warning", "Audit-Id", "X-Odd", "X-Empty", "Retry-After", "Location", "Www-Authenticate",
			"Vary", "Link", "Cache-Control", "X-Kubernetes-Pf-Flowschema-Uid", "X-Large", "Content-Encoding", "Last-Modified", "Server", "Allow")
		value := pick(random, "", "a", `299 - "deprecated"`, "application/json", "text/html; charset=utf-8", "1", "/elsewhere?x=1", `Basic realm="x"`,
			"\xe4", "gzip", "Wed, 21 Oct 2015 07:28:00 GMT", strings.Repeat("long ", random.IntN(2500)))
		p.header[name] = append(p.header[name], value)
	}
	if bodiless := a.method == "HEAD" || p.status == 204 || p.status == 304; !bodiless && random.IntN(4) == 0 {
		p.trailer, p.unforeseen = http.Header{"X-Checksum": {"abc"}, "Grpc-Status": {"0"}}, random.IntN(2) == 0
		p.announced = false
	}
	if a.version == "1" && len(a.body) > 0 {
		p.reads = 2 // after an early answer HTTP/1.1 resets the connection, and the answer may be lost
	}
	p.aborts = p.size > 0 && p.trailer == nil && a.method != "HEAD" && p.status != 204 && p.status != 304 && random.IntN(20) == 0
	return p
}

func noise(random *rand.Rand, n int) []byte {
	body := make([]byte, n)
	for i := range body {
		body[i] = byte(random.Uint32())
	}
	return body
}

// serve answers as the number in the path decides, and records the request.
func (d *differential) serve(w http.ResponseWriter, r *http.Request) {
	parts := strings.SplitN(strings.TrimPrefix(r.URL.Path, doublePrefix+"fidelity/"), "/", 3)
	n, err := strconv.Atoi(parts[0])
	if err != nil || len(parts) < 2 {
		http.NotFound(w, r)
		return
	}
	way, reply := parts[1], newAsk(n).answer
	got := asked{
		Method: r.Method, URI: strings.Replace(r.RequestURI, "/"+way, "", 1), Header: binding(r.Header), Length: r.ContentLength,
	}
	d.remember(n, way, got)
	_ = http.NewResponseController(w).EnableFullDuplex() // always on in HTTP/2
	switch reply.reads {
	case 1:
		_, _ = io.ReadFull(r.Body, make([]byte, 10))
	case 2:
		body, err := io.ReadAll(r.Body)
		got.Body = fmt.Sprint(sum(body), " ", err)
		d.remember(n, way, got)
	}
	reply.write(w)
}

func (d *differential) remember(n int, way string, got asked) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.received[fmt.Sprint(n, way)] = got
}

// write sends the answer.
func (p *reply) write(w http.ResponseWriter) {
	for i := range p.hints {
		w.Header().Set("Link", fmt.Sprintf("</style-%d.css>; rel=preload", i))
		w.WriteHeader(http.StatusEarlyHints)
		w.Header().Del("Link")
	}
	for name, values := range p.header {
		w.Header()[name] = values
	}
	if _, set := p.header["Content-Type"]; !set {
		w.Header()["Content-Type"] = nil // otherwise Go guesses
	}
	for name := range p.trailer {
		if !p.unforeseen {
			w.Header().Add("Trailer", name)
		}
	}
	bodiless := p.status == http.StatusNoContent || p.status == http.StatusNotModified
	if p.announced && !bodiless {
		w.Header().Set("Content-Length", strconv.Itoa(p.size))
	}
	w.WriteHeader(p.status)
	if !p.announced {
		_ = http.NewResponseController(w).Flush() // otherwise Go adds the length of a short answer
	}
	if !bodiless {
		p.writeBody(w)
	}
	for name, values := range p.trailer {
		if p.unforeseen {
			name = http.TrailerPrefix + name
		}
		w.Header()[name] = values
	}
}

func (p *reply) writeBody(w http.ResponseWriter) {
	body := noise(rand.New(rand.NewPCG(p.random, 1)), p.size)
	if p.aborts {
		_, _ = w.Write(body[:len(body)/2])
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}
	for i := range p.flushes {
		part := len(body) / (p.flushes + 1 - i)
		_, _ = w.Write(body[:part])
		_ = http.NewResponseController(w).Flush()
		body = body[part:]
	}
	_, _ = w.Write(body)
}
