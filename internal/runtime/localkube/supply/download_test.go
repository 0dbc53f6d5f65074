// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package supply_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha512"
	"encoding/hex"
	"errors"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/leatdev/leat/internal/runtime/localkube"
	"github.com/leatdev/leat/internal/runtime/localkube/release"
	"github.com/leatdev/leat/internal/runtime/localkube/supply"
)

// withReleases adds a local server that stands for the download site and has the programs of an
// archive. requests counts what it is asked for.
func (b *bench) withReleases(t *testing.T, etcd string) (content []byte, requests *atomic.Int32) {
	t.Helper()
	var packed bytes.Buffer
	compressed := gzip.NewWriter(&packed)
	writer := tar.NewWriter(compressed)
	for file, version := range map[string]string{localkube.EtcdFile: etcd, localkube.APIServerFile: "1.36.2"} {
		script := "#!/bin/sh\ncat <<'end'\n" + prints(file, version) + "\nend\n"
		header := &tar.Header{Name: "tools/" + file, Size: int64(len(script)), Typeflag: tar.TypeReg}
		if err := writer.WriteHeader(header); err != nil {
			t.Fatal(err)
		}
		if _, err := writer.Write([]byte(script)); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(writer.Close(), compressed.Close()); err != nil {
		t.Fatal(err)
	}
	content, requests = packed.Bytes(), new(atomic.Int32)
	sum := sha512.Sum512(content)
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		requests.Add(1)
		_, _ = w.Write(content)
	}))
	t.Cleanup(site.Close)
	releases, err := release.New(release.Params{
		Dir: filepath.Join(b.CacheDir, "releases"), Mirror: site.URL,
		Archives: []release.Archive{{
			URL: "https://downloads.example.test/servers.tar.gz", SHA512: hex.EncodeToString(sum[:]), MaxSize: 1 << 20, Version: "1.36.2",
			Files: supply.Servers(),
		}},
		Pause: func(context.Context, int) error { return nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	b.Releases = releases
	return content, requests
}

// Missing files are downloaded rather than built, once; files that no release has are built.
func TestDownloadBeforeBuild(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.withSource(t, "1.36.3", "3.7.3")
	_, requests := b.withReleases(t, "3.6.8")
	for range 2 {
		got, err := b.servers(t)
		if err != nil {
			t.Fatal(err)
		}
		if want := filepath.Join(b.CacheDir, "releases"); !strings.HasPrefix(got.Etcd, want) || !strings.HasPrefix(got.APIServer, want) {
			t.Errorf("got %+v, want both files in %s", got, want)
		}
	}
	if got := requests.Load(); got != 1 {
		t.Errorf("got %d requests, want 1", got)
	}
	if _, err := supply.New(b.Params).Get(t.Context(), []string{localkube.SchedulerFile}); err != nil {
		t.Fatal(err)
	}
	want := []string{
		"--kubernetes-binaries: not set",
		"earlier start: without etcd, kube-apiserver",
		"PATH: without etcd, kube-apiserver",
		"kind: not requested; --kind runs the cluster in containers",
		"download: takes etcd, kube-apiserver",
		"--kubernetes-binaries: not set",
		"earlier start: takes etcd, kube-apiserver",
		"--kubernetes-binaries: not set",
		"earlier start: without kube-scheduler",
		"PATH: without kube-scheduler",
		"kind: not requested; --kind runs the cluster in containers",
		"download: no pinned release of kube-scheduler",
		"build: takes kube-scheduler",
	}
	if got := strings.Join(b.origins, "\n"); got != strings.Join(want, "\n") {
		t.Errorf("reported\n%s\nwant\n%s", got, strings.Join(want, "\n"))
	}
}

// A release with another checksum is not taken, and the build is, which needs no checksum.
func TestSecReleaseThatDiffersIsBuilt(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	content, requests := b.withReleases(t, "3.6.8")
	content[len(content)-1] ^= 1 // what the server sends
	_, err := b.servers(t)
	if missing, ok := errors.AsType[*supply.MissingError](err); !ok || !strings.Contains(missing.Error(), release.ErrChecksum.Error()) {
		t.Errorf("without a checkout: got %v, want the wrong checksum", err)
	}
	b.withSource(t, "1.36.3", "3.7.3")
	got, err := b.servers(t)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(got.Etcd, "releases") || b.built(t) == "" {
		t.Errorf("got %+v, want what was built", got)
	}
	if got := requests.Load(); got != 2 {
		t.Errorf("got %d requests, want one for each start", got)
	}
}

// The etcd of a release may be older than the one that was built for an earlier start.
func TestReleaseOfAnOldEtcd(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.withSource(t, "1.36.3", "3.7.3")
	b.withReleases(t, "3.6.8")
	b.EtcdData = "3.7.3"
	for range 2 { // downloaded, and in the cache
		got, err := b.servers(t)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(got.Etcd, "releases") || !strings.Contains(got.APIServer, "releases") {
			t.Errorf("got %+v, want etcd built and kube-apiserver downloaded", got)
		}
	}
}

func TestPinnedReleasesFit(t *testing.T) {
	t.Parallel()
	pinned := map[string]bool{}
	for _, a := range release.Pinned("linux", "amd64") {
		for _, file := range a.Files {
			pinned[file] = true
			if file != localkube.EtcdFile && supply.Misfit(file, a.Version) != "" {
				t.Errorf("%s %s: %s", file, a.Version, supply.Misfit(file, a.Version))
			}
		}
	}
	for _, file := range append(supply.Servers(), localkube.ControllerManagerFile, localkube.SchedulerFile, localkube.KubectlFile) {
		if !pinned[file] {
			t.Errorf("%s has no pinned release", file)
		}
	}
}
