// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package bundlehttp_test

import (
	"bytes"
	"net/http"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
)

// TestGzip asks for gzip, which is made of the stored bytes while it is sent: it has no length and no ranges, and a weak
// tag that follows from the digest, because replicas may have other compressors.
func TestGzip(t *testing.T) {
	t.Parallel()
	here, there := newDesk(t, zstd.SpeedFastest), newDesk(t, zstd.SpeedBestCompression)
	form := http.Header{"Accept-Encoding": {"gzip"}}
	res, whole := here.fetch(t, form)
	if !bytes.Equal(undo(t, res.Header.Get("Content-Encoding"), whole), here.app.tar) {
		t.Error("got other content")
	}
	tag := res.Header.Get("ETag")
	opaque, isWeak := strings.CutPrefix(tag, "W/")
	if !isWeak || res.ContentLength != -1 || res.Header.Get("Accept-Ranges") != "none" {
		t.Errorf("got tag %s, length %d, %v", tag, res.ContentLength, res.Header)
	}
	if other, _ := there.fetch(t, form); other.Header.Get("ETag") != tag {
		t.Errorf("got tags %s and %s of the same tar", tag, other.Header.Get("ETag"))
	}
	for _, c := range []struct {
		header http.Header
		status int
	}{
		{http.Header{"If-None-Match": {tag}}, 304},
		{http.Header{"If-None-Match": {`"other", W/` + opaque}}, 304},
		{http.Header{"If-None-Match": {"*"}}, 304},
		{http.Header{"If-None-Match": {`"other"`}}, 200},
		{http.Header{"If-Match": {opaque}}, 412}, // a weak tag equals none in a strong comparison
		{http.Header{"If-Match": {tag}}, 412},
		{http.Header{"If-Match": {"*"}}, 200},
		{http.Header{"If-Match": {`"other"`}, "If-None-Match": {tag}}, 412},
		{http.Header{"Range": {"bytes=10-19"}}, 200},
		{http.Header{"Range": {"bytes=10-19"}, "If-Range": {opaque}}, 200},
		{http.Header{"Range": {"bytes=10-19"}, "If-None-Match": {tag}}, 304},
	} {
		res, body := here.fetch(t, with(form, c.header))
		if res.StatusCode != c.status {
			t.Errorf("%v: got %d, want %d", c.header, res.StatusCode, c.status)
			continue
		}
		switch c.status {
		case 200:
			if !bytes.Equal(body, whole) {
				t.Errorf("%v: got other bytes", c.header)
			}
		case 304:
			if len(body) != 0 || res.Header.Get("ETag") != tag || res.Header.Get("Cache-Control") == "" || res.Header.Get("Vary") == "" {
				t.Errorf("%v: got %v and %d bytes, want what a cache needs and no body", c.header, res.Header, len(body))
			}
		case 412:
			if res.Header.Get("Cache-Control") != "no-store" || res.ContentLength != int64(len(body)) {
				t.Errorf("%v: got %v", c.header, res.Header)
			}
		}
	}
	head, body := here.get(t, http.MethodHead, here.app.digest().String(), form)
	for _, key := range []string{"ETag", "Content-Type", "Content-Encoding", "Cache-Control", "Vary", "Accept-Ranges"} {
		if head.Header.Get(key) != res.Header.Get(key) || len(body) != 0 {
			t.Errorf("%s: got %q, want %q as of a GET", key, head.Header.Get(key), res.Header.Get(key))
		}
	}
}
