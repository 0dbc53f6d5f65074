// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package credfile reads the credentials that a hub uses for whole hosts or groups of repositories,
// and the mirrors of registries, from one file of URL prefixes.
package credfile

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"sync"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/leatdev/leat/internal/contract/upstream"
	"github.com/leatdev/leat/internal/kit/backoff"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
)

const (
	// reloadEvery is how soon a changed file counts. Its content is compared: what mounts it may
	// keep times and names.
	reloadEvery = 10 * time.Second
	maxFile     = 4 << 20
)

// File is a file of credentials. All methods may be called concurrently.
type File struct {
	path   string
	logger *slog.Logger
	check  func(mirror.Definition) error

	mu      sync.Mutex
	entries []entry
	seen    [sha256.Size]byte // what was last read, good or bad
	missing bool              // the file could not be read the last time
}

// entry is one credential with what it is for, and the mirrors below its prefix.
type entry struct {
	prefix  location
	shared  mirror.SharedCredential // without a credential: there are only mirrors
	mirrors []location
}

// New returns a file that has not been read yet, and so holds nothing.
func New(path string, logger *slog.Logger) *File {
	return &File{path: path, logger: logger}
}

// Load reads the file for the first time. Check reports whether a credential can be used for a URL;
// it is asked again for every change. The error names file and entry, and holds no secret.
func (f *File) Load(check func(mirror.Definition) error) error {
	f.check = check
	data, err := f.read()
	if err != nil {
		return fmt.Errorf("read credentials file: %w", err)
	}
	entries, err := f.parse(data)
	if err != nil {
		return fmt.Errorf("read credentials file %s: %w", f.path, err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.entries, f.seen = entries, sha256.Sum256(data)
	return nil
}

// Run takes over every change of the file until ctx is done. A file that cannot be used leaves the
// credentials as they are.
func (f *File) Run(ctx context.Context) error {
	for backoff.Wait(ctx, reloadEvery) == nil {
		f.reload(ctx)
	}
	return nil
}

func (f *File) reload(ctx context.Context) {
	data, err := f.read()
	sum := sha256.Sum256(data)
	f.mu.Lock()
	defer f.mu.Unlock()
	if (err != nil && f.missing) || (err == nil && !f.missing && sum == f.seen) {
		return
	}
	f.missing = err != nil
	var entries []entry
	if err == nil {
		f.seen = sum
		entries, err = f.parse(data)
	}
	if err != nil {
		f.logger.WarnContext(ctx, "credentials file not usable, the last good one stays",
			slog.String("path", f.path), slog.Any("error", err))
		return
	}
	f.entries = entries
	f.logger.InfoContext(ctx, "credentials file loaded", slog.String("path", f.path), slog.Int("prefixes", len(entries)))
}

func (f *File) read() ([]byte, error) {
	info, err := os.Stat(f.path)
	if err != nil {
		return nil, err
	}
	if info.Size() > maxFile {
		return nil, fmt.Errorf("%s has more than %d bytes", f.path, maxFile)
	}
	return os.ReadFile(f.path)
}

// For returns the credential of the longest prefix that the URL begins with; false: there is none.
func (f *File) For(url string) (mirror.SharedCredential, bool) {
	at, err := parseLocation(url)
	if err != nil {
		return mirror.SharedCredential{}, false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, e := range f.entries { // the longest comes first
		if e.prefix.holds(at) && !e.shared.IsZero() {
			return e.shared, true
		}
	}
	return mirror.SharedCredential{}, false
}

// Mirrors returns the URLs at which mirrors of a registry have the repository with that URL, in the
// order of the longest prefix that has any.
func (f *File) Mirrors(url string) []string {
	at, err := parseLocation(url)
	if err != nil {
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, e := range f.entries {
		if len(e.mirrors) == 0 || !e.prefix.holds(at) {
			continue
		}
		urls := make([]string, len(e.mirrors))
		for i, m := range e.mirrors {
			m.segments = slices.Concat(m.segments, at.segments[len(e.prefix.segments):])
			urls[i] = m.String()
		}
		return urls
	}
	return nil
}

// parse reads all entries, or returns an error about the first bad one.
func (f *File) parse(data []byte) ([]entry, error) {
	var documents []document
	if err := yaml.UnmarshalStrict(data, &documents); err != nil {
		return nil, fmt.Errorf("not a list of urlPrefix with credential or mirrors: %w", syntax(err))
	}
	entries := make([]entry, 0, len(documents))
	for i, d := range documents {
		e, err := f.entry(d)
		if err != nil {
			return nil, fmt.Errorf("entry %d: %w", i+1, err)
		}
		if slices.ContainsFunc(entries, func(other entry) bool { return other.prefix.equal(e.prefix) }) {
			return nil, fmt.Errorf("entry %d: urlPrefix: %q is there twice", i+1, e.shared.Prefix)
		}
		entries = append(entries, e)
	}
	slices.SortStableFunc(entries, func(a, b entry) int { return b.prefix.length() - a.prefix.length() })
	return entries, nil
}

func (f *File) entry(d document) (entry, error) {
	prefix, err := parseLocation(d.URLPrefix)
	if err != nil {
		return entry{}, fmt.Errorf("urlPrefix: %w", err)
	}
	mirrors, err := d.mirrorsOf(prefix)
	if err != nil {
		return entry{}, err
	}
	if len(mirrors) > 0 && d.Credential == (credential{}) && d.CAPEM == "" {
		return entry{prefix: prefix, shared: mirror.SharedCredential{Prefix: prefix.String()}, mirrors: mirrors}, nil
	}
	credential, err := d.Credential.parse()
	if err != nil {
		return entry{}, err
	}
	// Any repository below the prefix will do to find out whether the credential fits the scheme.
	example := upstream.Definition{Type: prefix.kind(), URL: prefix.example(), Credential: credential, CAPEM: d.CAPEM}
	if err := f.check(mirror.Definition{Name: "prefix", UID: "prefix", Definition: example}); err != nil {
		if field, ok := errors.AsType[*mirror.FieldError](err); ok && field.Field == "url" {
			return entry{}, fmt.Errorf("urlPrefix: %s", field.Message)
		}
		return entry{}, err
	}
	shared := mirror.SharedCredential{Credential: credential, CAPEM: d.CAPEM, Prefix: prefix.String()}
	return entry{prefix: prefix, shared: shared, mirrors: mirrors}, nil
}
