// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package bundlehttp_test

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"mime"
	"mime/multipart"
	"net/http"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
)

// with adds a header to the headers of a form.
func with(form http.Header, more http.Header) http.Header {
	header := form.Clone()
	maps.Copy(header, more)
	return header
}

func TestConditions(t *testing.T) {
	t.Parallel()
	d := newDesk(t, zstd.SpeedDefault)
	for name, form := range forms() {
		res, whole := d.fetch(t, form)
		tag := res.Header.Get("ETag")
		for _, c := range []struct {
			header http.Header
			status int
		}{
			{http.Header{"If-None-Match": {tag}}, 304},
			{http.Header{"If-None-Match": {`"other", W/` + tag}}, 304},
			{http.Header{"If-None-Match": {`"other"`, tag}}, 304},
			{http.Header{"If-None-Match": {"*"}}, 304},
			{http.Header{"If-None-Match": {`"other"`}}, 200},
			{http.Header{"If-Match": {tag}}, 200},
			{http.Header{"If-Match": {`"other"`, tag}}, 200},
			{http.Header{"If-Match": {"*"}}, 200},
			{http.Header{"If-Match": {`"other"`}}, 412},
			{http.Header{"If-Match": {"W/" + tag}}, 412}, // a strong comparison
			{http.Header{"If-Match": {`"other"`}, "If-None-Match": {tag}}, 412},
			{http.Header{"If-Match": {tag}, "If-None-Match": {tag}}, 304},
			{http.Header{"Range": {"bytes=10-19"}, "If-Range": {tag}}, 206},
			{http.Header{"Range": {"bytes=10-19"}, "If-Range": {`"other"`}}, 200},
			{http.Header{"Range": {"bytes=10-19"}, "If-Range": {"W/" + tag}}, 200},
			{http.Header{"Range": {"bytes=10-19"}, "If-None-Match": {tag}}, 304},
		} {
			res, body := d.fetch(t, with(form, c.header))
			if res.StatusCode != c.status {
				t.Errorf("%s, %v: got %d, want %d", name, c.header, res.StatusCode, c.status)
				continue
			}
			switch c.status {
			case 200:
				if !bytes.Equal(body, whole) {
					t.Errorf("%s, %v: got other bytes", name, c.header)
				}
			case 304:
				if len(body) != 0 || res.Header.Get("ETag") != tag || res.Header.Get("Cache-Control") == "" || res.Header.Get("Vary") == "" {
					t.Errorf("%s, %v: got %v and %d bytes, want what a cache needs and no body", name, c.header, res.Header, len(body))
				}
			case 412:
				if res.Header.Get("Cache-Control") != "no-store" || res.ContentLength != int64(len(body)) {
					t.Errorf("%s, %v: got %v", name, c.header, res.Header)
				}
			}
		}
	}
}

func TestRanges(t *testing.T) {
	t.Parallel()
	d := newDesk(t, zstd.SpeedDefault)
	for name, form := range forms() {
		res, whole := d.fetch(t, form)
		size := len(whole)
		coding := res.Header.Get("Content-Encoding")
		for _, c := range []struct {
			ranges string
			from   int
			to     int // past the last byte; 0 is a 416
		}{
			{"bytes=0-0", 0, 1},
			{"bytes=10-19", 10, 20},
			{"Bytes=10-19", 10, 20},
			{"bytes=100-", 100, size},
			{"bytes=-5", size - 5, size},
			{fmt.Sprintf("bytes=10-%d", size+100), 10, size},
			{fmt.Sprintf("bytes=%d-", size), 0, 0},
			{"bytes=9-2", 0, 0},
		} {
			res, body := d.fetch(t, with(form, http.Header{"Range": {c.ranges}}))
			if c.to == 0 {
				if res.StatusCode != http.StatusRequestedRangeNotSatisfiable || res.Header.Get("Cache-Control") != "" {
					t.Errorf("%s, %s: got %s %v, want 416", name, c.ranges, res.Status, res.Header)
				}
				continue
			}
			if want := fmt.Sprintf("bytes %d-%d/%d", c.from, c.to-1, size); res.StatusCode != 206 || res.Header.Get("Content-Range") != want {
				t.Errorf("%s, %s: got %s, %q, want %q", name, c.ranges, res.Status, res.Header.Get("Content-Range"), want)
				continue
			}
			if !bytes.Equal(body, whole[c.from:c.to]) || res.Header.Get("Content-Encoding") != coding {
				t.Errorf("%s, %s: got other bytes", name, c.ranges)
			}
		}
		res, _ = d.fetch(t, with(form, http.Header{"Range": {fmt.Sprintf("bytes=%d-", size)}}))
		if want := fmt.Sprintf("bytes */%d", size); res.Header.Get("Content-Range") != want {
			t.Errorf("%s: got Content-Range %q, want %q", name, res.Header.Get("Content-Range"), want)
		}
	}
}

func TestManyRanges(t *testing.T) {
	t.Parallel()
	d := newDesk(t, zstd.SpeedDefault)
	for name, form := range forms() {
		_, whole := d.fetch(t, form)
		res, body := d.fetch(t, with(form, http.Header{"Range": {"bytes=0-9, 100-199,-7"}}))
		if name == "plain" { // each range would cost all that comes before it
			if res.StatusCode != http.StatusOK || !bytes.Equal(body, whole) {
				t.Errorf("%s: got %s and %d bytes, want the whole", name, res.Status, len(body))
			}
			continue
		}
		kind, parameters, err := mime.ParseMediaType(res.Header.Get("Content-Type"))
		if err != nil || res.StatusCode != 206 || kind != "multipart/byteranges" {
			t.Fatalf("%s: got %s, %s, %v, want several ranges", name, res.Status, kind, err)
		}
		parts := multipart.NewReader(bytes.NewReader(body), parameters["boundary"])
		for _, want := range [][]byte{whole[:10], whole[100:200], whole[len(whole)-7:]} {
			part, err := parts.NextRawPart()
			if err != nil {
				t.Fatal(err)
			}
			if got, err := io.ReadAll(part); err != nil || !bytes.Equal(got, want) {
				t.Errorf("%s: got %d bytes, %v, want %d", name, len(got), err, len(want))
			}
		}
		overlapping := strings.TrimSuffix(strings.Repeat("0-,", 10), ",")
		tiny := strings.TrimSuffix(strings.Repeat("0-0,", 17), ",")
		for _, ranges := range []string{"bytes=" + overlapping, "bytes=" + tiny, "lines=1-2", "nonsense"} {
			res, body := d.fetch(t, with(form, http.Header{"Range": {ranges}}))
			if res.StatusCode != 200 || !bytes.Equal(body, whole) {
				t.Errorf("%s, %s: got %s and %d bytes, want the whole", name, ranges, res.Status, len(body))
			}
		}
	}
}

func TestHead(t *testing.T) {
	t.Parallel()
	d := newDesk(t, zstd.SpeedDefault)
	for name, form := range forms() {
		want, whole := d.fetch(t, form)
		for _, more := range []http.Header{{}, {"Range": {"bytes=10-19"}}} { // ranges are for GET alone
			res, body := d.get(t, http.MethodHead, d.app.digest().String(), with(form, more))
			if res.StatusCode != 200 || len(body) != 0 || res.ContentLength != int64(len(whole)) {
				t.Errorf("%s: got %s, length %d and %d bytes, want the head of a GET", name, res.Status, res.ContentLength, len(body))
			}
			for _, key := range []string{"ETag", "Content-Type", "Content-Encoding", "Cache-Control", "Vary", "Accept-Ranges"} {
				if res.Header.Get(key) != want.Header.Get(key) {
					t.Errorf("%s: %s: got %q, want %q as of a GET", name, key, res.Header.Get(key), want.Header.Get(key))
				}
			}
		}
	}
	res, _ := d.fetch(t, nil)
	if got := res.Header.Get("Cache-Control"); got != "max-age=31536000, s-maxage=0, immutable" || res.Header.Get("Accept-Ranges") != "bytes" {
		t.Errorf("got %q, want shared caches to ask for each caller", got)
	}
}

// TestTarIsNotFetchedToSayItIsTheSame asks about a form whose tag follows from the digest.
func TestTarIsNotFetchedToSayItIsTheSame(t *testing.T) {
	t.Parallel()
	d := newDesk(t, zstd.SpeedDefault)
	before := d.work()
	res, _ := d.fetch(t, http.Header{"Accept": {tarType}, "If-None-Match": {`"tar-` + d.app.digest().Hex() + `"`}})
	if res.StatusCode != http.StatusNotModified || d.work() != before {
		t.Errorf("got %s and %d pieces of work, want 304 and none", res.Status, d.work()-before)
	}
}
