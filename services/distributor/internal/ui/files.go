// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package ui

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"net/http"
	"path"
	"strconv"
	"strings"

	"github.com/leatdev/leat/internal/runtime/serve"
)

// mediaTypes are the kinds of files that a build may have. Others are not served.
var mediaTypes = map[string]string{
	".css":         "text/css; charset=utf-8",
	".html":        "text/html; charset=utf-8",
	".ico":         "image/x-icon",
	".js":          "text/javascript; charset=utf-8",
	".json":        "application/json",
	".png":         "image/png",
	".svg":         "image/svg+xml",
	".txt":         "text/plain; charset=utf-8",
	".webmanifest": "application/manifest+json",
	".webp":        "image/webp",
	".woff2":       "font/woff2",
}

// codings are the encodings of a file and the endings of their files, the best for both sides first.
var codings = [...]struct{ name, suffix string }{{"br", ".br"}, {"gzip", ".gz"}, {"", ""}}

// least is the weight of what a header allows without naming it. Named weights have three digits at
// most.
const least = 0.0001

// file is a file of a build in each of its encodings.
type file struct {
	mediaType string
	// isHashed is true for a file whose name changes with its content.
	isHashed bool
	forms    map[string]form // by the name of the encoding
}

// form is a file in one encoding.
type form struct {
	content []byte
	tag     string
}

// readFiles reads all files of a build but its page, by their paths.
func readFiles(build fs.FS) (map[string]*file, error) {
	files := map[string]*file{}
	err := fs.WalkDir(build, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if strings.HasPrefix(entry.Name(), ".") && name != "." {
			return skip(entry) // notes of the bundler
		}
		coding := codingOf(name)
		plain := strings.TrimSuffix(name, coding.suffix)
		mediaType, ok := mediaTypes[path.Ext(plain)]
		if entry.IsDir() || !ok || plain == page {
			return nil
		}
		if len(files) == maxFiles {
			return fmt.Errorf("more than %d files", maxFiles)
		}
		content, err := fs.ReadFile(build, name)
		if err != nil {
			return err
		}
		if len(content) > maxFileBytes {
			return fmt.Errorf("%s: %d bytes, more than %d", name, len(content), maxFileBytes)
		}
		f := files[plain]
		if f == nil {
			f = &file{mediaType: mediaType, isHashed: strings.HasPrefix(plain, assets), forms: map[string]form{}}
			files[plain] = f
		}
		sum := sha256.Sum256(content)
		f.forms[coding.name] = form{content: content, tag: `"` + hex.EncodeToString(sum[:16]) + `"`}
		return nil
	})
	for name, f := range files {
		if _, ok := f.forms[""]; !ok {
			delete(files, name) // an encoding of a file that is not there
		}
	}
	return files, err
}

func skip(entry fs.DirEntry) error {
	if entry.IsDir() {
		return fs.SkipDir
	}
	return nil
}

func codingOf(name string) (coding struct{ name, suffix string }) {
	for _, coding := range codings {
		if strings.HasSuffix(name, coding.suffix) {
			return coding
		}
	}
	return coding
}

// serve answers with the file in the encoding that the request prefers, and returns the kind of the
// answer.
func (f *file) serve(w http.ResponseWriter, r *http.Request) string {
	header := w.Header()
	guardHeaders(header, r.Host, "")
	header.Add("Vary", "Accept-Encoding")
	coding, ok := f.choose(r.Header)
	if !ok {
		refuse(w, http.StatusNotAcceptable)
		return kindRefused
	}
	chosen := f.forms[coding]
	header.Set("ETag", chosen.tag)
	if f.isHashed {
		header.Set("Cache-Control", "public, max-age=31536000, immutable")
	} else {
		header.Set("Cache-Control", "no-cache")
	}
	if serve.NamesTag(r.Header["If-None-Match"], chosen.tag, true) {
		w.WriteHeader(http.StatusNotModified)
		return kindUnchanged
	}
	header.Set("Content-Type", f.mediaType)
	if coding != "" {
		header.Set("Content-Encoding", coding)
	}
	send(w, r, http.StatusOK, chosen.content)
	return kindFile
}

// choose returns the encoding that a request prefers; false means that it refuses all of them.
func (f *file) choose(header http.Header) (string, bool) {
	accepted := serve.PreferencesOf(header["Accept-Encoding"])
	best, most := "", 0.0
	for _, coding := range codings {
		if _, ok := f.forms[coding.name]; !ok {
			continue
		}
		weight := accepted.Weight(least, "identity", "*")
		if coding.name != "" {
			weight = accepted.Weight(0, coding.name, "*")
		}
		if weight > most {
			best, most = coding.name, weight
		}
	}
	return best, most > 0
}

// send sends a content, or its header alone for HEAD.
func send(w http.ResponseWriter, r *http.Request, status int, content []byte) {
	w.Header().Set("Content-Length", strconv.Itoa(len(content)))
	w.WriteHeader(status)
	if r.Method != http.MethodHead {
		_, _ = w.Write(content) // the browser has gone when this fails
	}
}
