// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package bundlehttp_test

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"sync"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/leatdev/leat/internal/contract/digest"
)

// noise does not compress.
func noise(n int) string {
	random := rand.New(rand.NewPCG(1, 2))
	raw := make([]byte, n)
	for i := range raw {
		raw[i] = byte(random.Uint32())
	}
	return string(raw)
}

// pausing gives some bytes, waits, and gives the rest.
type pausing struct {
	first, rest io.Reader
	gate        chan struct{}
}

func (p *pausing) Read(b []byte) (int, error) {
	if n, err := p.first.Read(b); !errors.Is(err, io.EOF) {
		return n, err
	}
	<-p.gate
	return p.rest.Read(b)
}

func (p *pausing) Close() error { return nil }

// growingDesk has a bundle of 300 kB whose first two thirds come, and the rest, which may be
// another one, when the test allows it.
func growingDesk(t *testing.T, rest func([]byte) []byte) (*desk, func()) {
	t.Helper()
	d := newDeskOf(t, zstd.SpeedDefault, noise(300_000))
	f := d.app
	gate := make(chan struct{})
	open := sync.OnceFunc(func() { close(gate) })
	t.Cleanup(open)
	cut := len(f.packed) * 2 / 3
	d.upstream.reader = func() io.ReadCloser {
		return &pausing{first: bytes.NewReader(f.packed[:cut]), rest: bytes.NewReader(rest(f.packed[cut:])), gate: gate}
	}
	return d, open
}

// begin asks for the bundle and returns once the first bytes are there.
func (d *desk) begin(t *testing.T, header http.Header) (*http.Response, []byte) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, d.url+"/v1/bundles/"+d.app.digest().String(), http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	request.Header = with(header, http.Header{"Authorization": {"Bearer agent:one"}})
	res, err := (&http.Client{Transport: &http.Transport{DisableCompression: true, DisableKeepAlives: true}}).Do(request)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = res.Body.Close() })
	first := make([]byte, 64<<10)
	if _, err := io.ReadFull(res.Body, first); err != nil {
		t.Fatal(err)
	}
	return res, first
}

func TestBytesComeWhileTheCacheFills(t *testing.T) {
	t.Parallel()
	d, open := growingDesk(t, func(rest []byte) []byte { return rest })
	for name, form := range map[string]http.Header{"file": {}, "zstd": {"Accept-Encoding": {"zstd"}}} {
		res, first := d.begin(t, form) // while the rest has not even come
		if res.Header.Get("ETag") != "" || res.Header.Get("Accept-Ranges") != "none" || res.Header.Get("Content-Encoding") != form.Get("Accept-Encoding") {
			t.Errorf("%s: got %v, want no promise about bytes that nobody knows yet", name, res.Header)
		}
		defer func() {
			rest, err := io.ReadAll(res.Body)
			if got := append(first, rest...); err != nil || !bytes.Equal(got, d.app.packed) {
				t.Errorf("%s: got %d bytes, %v, want %d", name, len(got), err, len(d.app.packed))
			}
		}()
	}
	open()
	if res, tar := d.fetch(t, http.Header{"Accept": {tarType}}); res.StatusCode != 200 || digest.FromBytes(tar) != d.app.digest() {
		t.Errorf("got %s and %d bytes, want the tar once all is there", res.Status, len(tar))
	}
	if got := d.upstream.calls.Load(); got != 1 {
		t.Errorf("got %d fetches, want 1", got)
	}
}

func TestWrongBytesAreNeverACompleteAnswer(t *testing.T) {
	t.Parallel()
	for name, rest := range map[string]func([]byte) []byte{
		"flipped": func(b []byte) []byte { b = bytes.Clone(b); b[len(b)/2] ^= 1; return b },
		"cut off": func(b []byte) []byte { return b[:len(b)/2] },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d, open := growingDesk(t, rest)
			res, _ := d.begin(t, http.Header{})
			open()
			if rest, err := io.ReadAll(res.Body); err == nil {
				t.Errorf("got an answer that ended after %d more bytes, want one that broke off", len(rest))
			}
			if res, _ := d.fetch(t, http.Header{"Range": {"bytes=0-"}}); res.StatusCode != http.StatusInternalServerError {
				t.Errorf("got %s, want a refusal of the next one", res.Status)
			}
		})
	}
}
