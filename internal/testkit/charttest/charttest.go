// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package charttest serves Helm repositories over HTTP: a folder with archives of charts, and an
// index as `helm repo index` writes it.
package charttest

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/leatdev/leat/internal/testkit/selfsigned"
)

// Stats counts requests that were answered.
type Stats struct {
	Index       int // for the index
	NotModified int // of these, answered with 304
	Archives    int // for archives
	Provenances int // for provenance files, there or not
	MaxInFlight int // at once
	// Credentials are the values of Authorization that came, each once, sorted.
	Credentials []string
}

// Repo is one Helm repository, at the root of a server of its own.
type Repo struct {
	dir  string
	cert selfsigned.Certificate
	tls  *tls.Config // nil: plain HTTP

	// mu guards all below.
	mu           sync.Mutex
	server       *httptest.Server
	address      string
	user, secret string
	intercept    func(http.ResponseWriter, *http.Request) bool
	cutAfter     int // bytes of an archive; 0: none is cut
	hasNoETag    bool
	hasNoDigest  bool
	base         string // of the archives' URLs; empty: they are relative
	releases     map[string]map[string]release
	stats        Stats
	inFlight     int
}

// release is one published version.
type release struct {
	digest  string
	created time.Time
}

// New starts a repository without charts, over plain HTTP. It ends with the test.
func New(t testing.TB) *Repo {
	t.Helper()
	r := &Repo{dir: t.TempDir(), releases: map[string]map[string]release{}}
	r.start(t)
	t.Cleanup(r.Stop)
	return r
}

// NewTLS starts a repository over TLS. Where a certificate in PEM form is given, clients have to
// show that one.
func NewTLS(t testing.TB, client string) *Repo {
	t.Helper()
	r := &Repo{dir: t.TempDir(), releases: map[string]map[string]release{}, cert: selfsigned.New(t)}
	r.tls = &tls.Config{Certificates: []tls.Certificate{r.cert.Pair}, MinVersion: tls.VersionTLS12}
	if client != "" {
		r.tls.ClientAuth, r.tls.VerifyPeerCertificate = tls.RequireAnyClientCert, only(client)
	}
	r.start(t)
	t.Cleanup(r.Stop)
	return r
}

// URL returns what `helm repo add` takes.
func (r *Repo) URL() string {
	scheme := "http"
	if r.tls != nil {
		scheme = "https"
	}
	return scheme + "://" + r.address
}

// Dir returns the folder that is served.
func (r *Repo) Dir() string { return r.dir }

// CertificatePEM returns the certificate that clients have to trust.
func (r *Repo) CertificatePEM() string { return string(r.cert.PEM) }

// SetBasicAuth makes the server demand a user and a password.
func (r *Repo) SetBasicAuth(user, password string) {
	r.set(func() { r.user, r.secret = user, password })
}

// Intercept has handle answer requests instead, as long as it returns true.
func (r *Repo) Intercept(handle func(http.ResponseWriter, *http.Request) bool) {
	r.set(func() { r.intercept = handle })
}

// CutArchives breaks connections off after so many bytes of an archive; 0: none.
func (r *Repo) CutArchives(after int) { r.set(func() { r.cutAfter = after }) }

// WithoutETag makes the server omit whether its index has changed.
func (r *Repo) WithoutETag() { r.set(func() { r.hasNoETag = true }) }

// WithoutDigests leaves the digests out of the index.
func (r *Repo) WithoutDigests() { r.set(func() { r.hasNoDigest = true }) }

// WithDigests puts them back.
func (r *Repo) WithDigests() { r.set(func() { r.hasNoDigest = false }) }

// SetBase sets what the URLs of the archives begin with in the index.
func (r *Repo) SetBase(base string) { r.set(func() { r.base = base }) }

// Stats returns what was asked for since the last ResetStats.
func (r *Repo) Stats() Stats {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.stats
	s.Credentials = slices.Clone(s.Credentials)
	slices.Sort(s.Credentials)
	return s
}

// ResetStats forgets the requests so far.
func (r *Repo) ResetStats() { r.set(func() { r.stats = Stats{} }) }

func (r *Repo) set(change func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	change()
}

// Files returns the files of a chart that makes one ConfigMap, with the given text. Its Chart.yaml
// is as Helm writes it.
func Files(chart, version, text string) map[string]string {
	return map[string]string{
		"Chart.yaml":             "apiVersion: v2\ndescription: A chart of a test\nname: " + chart + "\ntype: application\nversion: " + version + "\n",
		"values.yaml":            "text: " + text + "\n",
		"templates/map.yaml":     "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {{ .Release.Name }}\ndata:\n  text: {{ .Values.text | quote }}\n",
		"templates/_helpers.tpl": "{{/* nothing */}}\n",
	}
}

// Pack returns the archive of a chart, as `helm package` makes it.
func Pack(t testing.TB, chart string, files map[string]string) []byte {
	t.Helper()
	var out bytes.Buffer
	packed := gzip.NewWriter(&out)
	w := tar.NewWriter(packed)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		header := &tar.Header{Name: chart + "/" + name, Mode: 0o644, Size: int64(len(files[name])), Typeflag: tar.TypeReg}
		if err := w.WriteHeader(header); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, files[name]); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := packed.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// Publish makes a chart with these files a version of the repository, in place of what that version
// was before, and returns the digest of its archive.
func (r *Repo) Publish(t testing.TB, chart, version string, files map[string]string) string {
	t.Helper()
	archive := Pack(t, chart, files)
	sum := sha256.Sum256(archive)
	digest := hex.EncodeToString(sum[:])
	r.write(t, archiveName(chart, version), archive)
	r.set(func() {
		if r.releases[chart] == nil {
			r.releases[chart] = map[string]release{}
		}
		r.releases[chart][version] = release{digest: digest, created: time.Now().UTC()}
	})
	r.WriteIndex(t)
	return digest
}

// Withdraw removes a version, and its archive.
func (r *Repo) Withdraw(t testing.TB, chart, version string) {
	t.Helper()
	r.set(func() { delete(r.releases[chart], version) })
	if err := os.Remove(filepath.Join(r.dir, archiveName(chart, version))); err != nil {
		t.Fatal(err)
	}
	r.WriteIndex(t)
}

// Replace writes another archive under a version, and leaves the index as it is.
func (r *Repo) Replace(t testing.TB, chart, version string, files map[string]string) {
	t.Helper()
	r.write(t, archiveName(chart, version), Pack(t, chart, files))
}

// Archive returns the archive of a version as it is served.
func (r *Repo) Archive(t testing.TB, chart, version string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(r.dir, archiveName(chart, version)))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// PublishProvenance makes text the provenance file of a version, in place of the one before.
func (r *Repo) PublishProvenance(t testing.TB, chart, version string, text []byte) {
	t.Helper()
	r.write(t, archiveName(chart, version)+provenanceSuffix, text)
}

// provenanceSuffix ends the names of provenance files, after the archive's name.
const provenanceSuffix = ".prov"

func archiveName(chart, version string) string { return chart + "-" + version + ".tgz" }

// WriteIndex writes the index of the published charts, as `helm repo index` does.
func (r *Repo) WriteIndex(t testing.TB) {
	t.Helper()
	r.mu.Lock()
	var text strings.Builder
	text.WriteString("apiVersion: v1\nentries:")
	charts := slices.Sorted(maps.Keys(r.releases))
	if len(charts) == 0 {
		text.WriteString(" {}")
	}
	text.WriteString("\n")
	for _, chart := range charts {
		fmt.Fprintf(&text, "  %s:\n", chart)
		versions := slices.Sorted(maps.Keys(r.releases[chart]))
		slices.Reverse(versions)
		for _, version := range versions {
			at := r.releases[chart][version]
			fmt.Fprintf(&text, "  - apiVersion: v2\n    created: %q\n    description: A chart of a test\n", at.created.Format(time.RFC3339Nano))
			if !r.hasNoDigest {
				fmt.Fprintf(&text, "    digest: %s\n", at.digest)
			}
			address := archiveName(chart, version)
			if r.base != "" {
				address = strings.TrimSuffix(r.base, "/") + "/" + address
			}
			fmt.Fprintf(&text, "    name: %s\n    type: application\n    urls:\n    - %s\n    version: %s\n", chart, address, version)
		}
	}
	fmt.Fprintf(&text, "generated: %q\n", time.Now().UTC().Format(time.RFC3339Nano))
	r.mu.Unlock()
	r.write(t, "index.yaml", []byte(text.String()))
}

// SetIndex writes an index of any text.
func (r *Repo) SetIndex(t testing.TB, text string) {
	t.Helper()
	r.write(t, "index.yaml", []byte(text))
}

// write replaces a file of the folder.
func (r *Repo) write(t testing.TB, name string, data []byte) {
	t.Helper()
	path := filepath.Join(r.dir, name)
	if err := os.WriteFile(path+".new", data, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}
