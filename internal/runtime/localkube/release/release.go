// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package release gets the files of a control plane from upstream's releases. Each archive is
// pinned by its SHA-512: nothing is unpacked, let alone run, of a file that differs. A download that
// breaks is continued, also by a later start.
package release

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/leatdev/leat/internal/kit/durable"
)

// Archive is a pinned .tar.gz of a release.
type Archive struct {
	URL     string   // https
	SHA512  string   // of the archive, in hexadecimal
	MaxSize int64    // in bytes; more is not downloaded
	Version string   // of Kubernetes
	Files   []string // the programs to unpack, by the names that they have in some folder of the archive
}

// maxFile bounds one unpacked program.
const maxFile = 512 << 20

// Params describes a Store.
type Params struct {
	Dir      string    // where archives and programs are kept; empty means leat/kube/releases in the user's cache folder
	Archives []Archive // empty means Pinned of this platform
	// Mirror is the base URL of a server that has upstream's files, at BASE/HOST/PATH. Empty means
	// upstream itself.
	Mirror    string
	Transport http.RoundTripper                            // nil means http.DefaultTransport, with the proxy of the environment
	Pause     func(ctx context.Context, attempt int) error // between attempts; nil means with a growing delay
	Progress  func(line string)                            // called with short lines of progress; may be nil
}

// Store keeps what was downloaded. Any number of processes may use one folder: one downloads and the
// others wait for it.
type Store struct {
	dir      string
	archives []Archive
	download *downloader
	progress func(string)
}

// New returns a Store. It makes no request.
func New(p Params) (*Store, error) {
	d, err := newDownloader(p)
	if err != nil {
		return nil, err
	}
	if p.Dir == "" {
		user, err := os.UserCacheDir()
		if err != nil {
			return nil, fmt.Errorf("find cache folder: %w", err)
		}
		p.Dir = filepath.Join(user, "leat", "kube", "releases")
	}
	archives := p.Archives
	if archives == nil {
		archives = Pinned(runtime.GOOS, runtime.GOARCH)
	}
	return &Store{dir: p.Dir, archives: archives, download: d, progress: d.progress}, nil
}

// Has reports whether an archive with the file is pinned for this platform.
func (s *Store) Has(file string) bool {
	return slices.ContainsFunc(s.archives, func(a Archive) bool { return slices.Contains(a.Files, file) })
}

// Stored returns the path of a file that an earlier call has unpacked.
func (s *Store) Stored(file string) (string, bool) {
	for _, a := range s.archives {
		name := filepath.Join(s.folder(a), file)
		if info, err := os.Stat(name); slices.Contains(a.Files, file) && err == nil && info.Mode().IsRegular() {
			return name, true
		}
	}
	return "", false
}

// Get returns the path of a file. It downloads the archive that has it unless it is stored.
func (s *Store) Get(ctx context.Context, file string) (string, error) {
	if name, ok := s.Stored(file); ok {
		return name, nil
	}
	i := slices.IndexFunc(s.archives, func(a Archive) bool { return slices.Contains(a.Files, file) })
	if i < 0 {
		return "", fmt.Errorf("no release of %s is pinned for %s/%s", file, runtime.GOOS, runtime.GOARCH)
	}
	a := s.archives[i]
	if err := os.MkdirAll(s.dir, 0o755); err != nil {
		return "", fmt.Errorf("make folder of releases: %w", err)
	}
	held, err := s.lock(ctx)
	if err != nil {
		return "", fmt.Errorf("lock folder of releases: %w", err)
	}
	defer func() { _ = held.Close() }()
	if name, ok := s.Stored(file); ok { // by the process that held the lock
		return name, nil
	}
	if err := s.unpackedBy(ctx, a); err != nil {
		return "", fmt.Errorf("download %s: %w", path.Base(a.URL), err)
	}
	return filepath.Join(s.folder(a), file), nil
}

// lock blocks until this process holds the folder, or ctx ends.
func (s *Store) lock(ctx context.Context) (io.Closer, error) {
	for told := false; ; told = true {
		held, err := durable.Lock(filepath.Join(s.dir, "lock"))
		if !errors.Is(err, durable.ErrLocked) {
			return held, err
		}
		if !told {
			s.progress("waiting for another process that downloads")
		}
		if err := s.download.pause(ctx, 0); err != nil {
			return nil, err
		}
	}
}

// folder is named after the checksum, so that it never has files of another archive.
func (s *Store) folder(a Archive) string {
	return filepath.Join(s.dir, "v"+a.Version+"-"+a.SHA512[:min(12, len(a.SHA512))])
}

// unpackedBy downloads an archive and unpacks it. The folder appears whole or not at all.
func (s *Store) unpackedBy(ctx context.Context, a Archive) error {
	s.progress("downloading " + path.Base(a.URL))
	part := s.folder(a) + ".part"
	if err := s.download.fetch(ctx, a, part); err != nil {
		return err
	}
	unfinished := s.folder(a) + ".new"
	if err := os.RemoveAll(unfinished); err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(unfinished) }()
	if err := unpack(part, unfinished, a.Files); err != nil {
		return err
	}
	if err := os.RemoveAll(s.folder(a)); err != nil { // of which a user has removed a file
		return err
	}
	if err := os.Rename(unfinished, s.folder(a)); err != nil {
		return err
	}
	s.progress("downloaded " + strings.Join(a.Files, ", ") + " " + a.Version)
	return os.Remove(part)
}

// unpack writes the named programs of an archive to dir, and nothing else.
func unpack(archive, dir string, files []string) error {
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	source, err := os.Open(archive)
	if err != nil {
		return err
	}
	defer source.Close()
	plain, err := gzip.NewReader(source)
	if err != nil {
		return fmt.Errorf("unpack: %w", err)
	}
	missing := slices.Clone(files)
	for entries := tar.NewReader(plain); len(missing) > 0; {
		entry, err := entries.Next()
		if errors.Is(err, io.EOF) {
			return fmt.Errorf("unpack: the archive lacks %s", strings.Join(missing, ", "))
		}
		if err != nil {
			return fmt.Errorf("unpack: %w", err)
		}
		i := slices.Index(missing, path.Base(entry.Name))
		if i < 0 || entry.Typeflag != tar.TypeReg {
			continue
		}
		if err := writeProgram(filepath.Join(dir, missing[i]), entries); err != nil {
			return fmt.Errorf("unpack %s: %w", missing[i], err)
		}
		missing = slices.Delete(missing, i, i+1)
	}
	return nil
}

func writeProgram(name string, content io.Reader) (err error) {
	file, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o755)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	written, err := io.Copy(file, io.LimitReader(content, maxFile+1))
	if err == nil && written > maxFile {
		err = fmt.Errorf("it has more than %d bytes", maxFile)
	}
	return err
}
