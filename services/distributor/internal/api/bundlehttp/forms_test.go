// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package bundlehttp_test

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"strconv"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/leatdev/leat/internal/contract/bundle"
	"github.com/leatdev/leat/internal/contract/digest"
)

const tarType = "application/x-tar"

// undo undoes a Content-Encoding.
func undo(tb testing.TB, coding string, body []byte) []byte {
	tb.Helper()
	var from io.Reader = bytes.NewReader(body)
	switch coding {
	case "gzip":
		z, err := gzip.NewReader(from)
		if err != nil {
			tb.Fatal(err)
		}
		from = z
	case "zstd":
		z, err := zstd.NewReader(from)
		if err != nil {
			tb.Fatal(err)
		}
		defer z.Close()
		from = z
	}
	content, err := io.ReadAll(from)
	if err != nil {
		tb.Fatal(err)
	}
	return content
}

func TestForms(t *testing.T) {
	t.Parallel()
	d := newDesk(t, zstd.SpeedDefault)
	const none = "\x00" // the header is not there
	for _, c := range []struct {
		accept, encoding string
		mediaType        string // "" is 406
		coding           string
	}{
		{none, none, bundle.MediaType, ""}, // curl -O
		{"*/*", none, bundle.MediaType, ""},
		{bundle.MediaType, "zstd", bundle.MediaType, ""}, // agents
		{bundle.MediaType, "gzip", bundle.MediaType, ""},
		{bundle.MediaType, none, bundle.MediaType, ""},
		{"application/x-tar;q=0.5, " + bundle.MediaType, "zstd", bundle.MediaType, ""},
		{"text/html", none, bundle.MediaType, ""}, // as if it had not said so
		{tarType, none, tarType, ""},
		{"APPLICATION/X-TAR", none, tarType, ""},
		{tarType + ";q=0.9, */*;q=0.1", none, tarType, ""},
		{tarType, "zstd", tarType, "zstd"},
		{"*/*", "deflate, gzip, br, zstd", tarType, "zstd"}, // curl --compressed
		{none, "gzip", tarType, "gzip"},                     // Go's client
		{none, "x-gzip", tarType, "gzip"},
		{none, "", tarType, ""},
		{none, "identity", tarType, ""}, // wget
		{none, "br, deflate", tarType, ""},
		{none, "*", tarType, "zstd"},
		{none, "gzip;q=1.0, zstd;q=0.5", tarType, "gzip"},
		{none, "gzip; q=0.001", tarType, "gzip"},
		{none, "gzip;q=0.5, identity", tarType, ""},
		{none, "gzip;q=0.5, identity;q=0.1", tarType, "gzip"},
		{none, "zstd;q=0, *", tarType, "gzip"},
		{none, "zstd;q=0, gzip;q=0", tarType, ""},
		{none, "identity;q=0, gzip;q=0.1", tarType, "gzip"},
		{none, "*;q=0, identity;q=0.1", tarType, ""},
		{none, "gzip;q=7, zstd;q=nan, ;;,", tarType, ""}, // invalid weights do not count
		{bundle.MediaType, "identity;q=0, zstd", tarType, "zstd"},
		{none, "*;q=0", "", ""},
		{tarType, "identity;q=0, br", "", ""},
	} {
		header := http.Header{}
		if c.accept != none {
			header.Set("Accept", c.accept)
		}
		if c.encoding != none {
			header.Set("Accept-Encoding", c.encoding)
		}
		name := "Accept " + strconv.Quote(c.accept) + ", Accept-Encoding " + strconv.Quote(c.encoding)
		res, body := d.fetch(t, header)
		if got := res.Header.Get("Vary"); got != "Accept, Accept-Encoding" {
			t.Errorf("%s: got Vary %q", name, got)
		}
		if c.mediaType == "" {
			if res.StatusCode != http.StatusNotAcceptable || res.Header.Get("Cache-Control") != "no-store" {
				t.Errorf("%s: got %s, want 406", name, res.Status)
			}
			continue
		}
		if res.StatusCode != http.StatusOK || res.Header.Get("Content-Type") != c.mediaType || res.Header.Get("Content-Encoding") != c.coding {
			t.Errorf("%s: got %s, %q, %q, want %q, %q", name, res.Status, res.Header.Get("Content-Type"), res.Header.Get("Content-Encoding"), c.mediaType, c.coding)
		}
		length := int64(len(body))
		if c.coding == "gzip" {
			length = -1 // it is made while it is sent
		}
		if res.ContentLength != length {
			t.Errorf("%s: got length %d, want %d of %d bytes", name, res.ContentLength, length, len(body))
		}
		content, want := undo(t, c.coding, body), d.app.tar
		if c.mediaType == bundle.MediaType {
			want = d.app.packed
		}
		if !bytes.Equal(content, want) {
			t.Errorf("%s: got other bytes", name)
		}
	}
	if got := d.upstream.calls.Load(); got != 1 {
		t.Errorf("got %d fetches, want 1 for all forms", got)
	}
}

// TestTransparentClient acts like every plain Go client.
func TestTransparentClient(t *testing.T) {
	t.Parallel()
	d := newDesk(t, zstd.SpeedDefault)
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, d.url+"/v1/bundles/"+d.app.digest().String(), http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer agent:one")
	res, err := (&http.Client{Transport: &http.Transport{}}).Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	content, err := io.ReadAll(res.Body)
	if err != nil || !res.Uncompressed || digest.FromBytes(content) != d.app.digest() {
		t.Errorf("got %d bytes (uncompressed: %v, %v), want the tar", len(content), res.Uncompressed, err)
	}
}

// forms are requests for each form that has strong tags and ranges.
func forms() map[string]http.Header {
	return map[string]http.Header{"file": {}, "zstd": {"Accept-Encoding": {"zstd"}}, "plain": {"Accept": {tarType}}}
}

// TestTagsNameBytes compares two replicas whose bundles were compressed by different compressors.
func TestTagsNameBytes(t *testing.T) {
	t.Parallel()
	here, there := newDesk(t, zstd.SpeedFastest), newDesk(t, zstd.SpeedBestCompression)
	if bytes.Equal(here.app.packed, there.app.packed) || here.app.digest() != there.app.digest() {
		t.Fatal("the replicas should have other bytes for the same digest")
	}
	seen := map[string]string{}
	for name, header := range forms() {
		a, bytesHere := here.fetch(t, header)
		b, bytesThere := there.fetch(t, header)
		tagHere, tagThere := a.Header.Get("ETag"), b.Header.Get("ETag")
		if same := bytes.Equal(bytesHere, bytesThere); same != (tagHere == tagThere) {
			t.Errorf("%s: got tags %s and %s, and the bytes are the same: %v", name, tagHere, tagThere, same)
		}
		if tagHere == "" || tagHere[0] != '"' || seen[tagHere] != "" {
			t.Errorf("%s: got tag %s, want a strong one that no other form has", name, tagHere)
		}
		seen[tagHere] = name
	}
}
