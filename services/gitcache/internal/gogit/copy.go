// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package gogit

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	git "github.com/go-git/go-git/v5"

	"github.com/leatdev/leat/internal/digest"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
)

var _ mirror.Copies = (*Git)(nil)

// packForm are the files of packs, which never change under their names. Nothing else travels between replicas.
var packForm = regexp.MustCompile(`^pack-([0-9a-f]{40}|[0-9a-f]{64})\.(pack|idx|rev)$`)

// generationForm keeps a name that came from elsewhere from leaving the folder of its repository.
var generationForm = regexp.MustCompile(`^` + generationPattern + `[A-Za-z0-9]+$`)

func packFolder(generation string) string { return filepath.Join(generation, "objects", "pack") }

// Export implements [mirror.Copies]. A digest is computed once for each file and process.
func (g *Git) Export(ctx context.Context, uid string) (string, []mirror.File, error) {
	dir, ok := g.generation(uid)
	if !ok {
		return "", nil, mirror.ErrNoMirror
	}
	names, err := wholePacks(dir)
	if err != nil {
		return "", nil, err
	}
	files := make([]mirror.File, 0, len(names))
	for _, name := range names {
		file, err := g.describe(ctx, dir, name)
		if err != nil {
			return "", nil, err
		}
		files = append(files, file)
	}
	return filepath.Base(dir), files, nil
}

// wholePacks lists the files of packs that are complete: the pack itself comes last to its name.
func wholePacks(dir string) ([]string, error) {
	entries, err := os.ReadDir(packFolder(dir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list packs: %w", err)
	}
	var names []string
	for _, e := range entries {
		stem := strings.TrimSuffix(e.Name(), filepath.Ext(e.Name()))
		whole := slices.ContainsFunc(entries, func(o os.DirEntry) bool { return o.Name() == stem+".pack" })
		if whole && packForm.MatchString(e.Name()) {
			names = append(names, e.Name())
		}
	}
	return names, nil
}

func (g *Git) describe(ctx context.Context, dir, name string) (mirror.File, error) {
	path := filepath.Join(packFolder(dir), name)
	g.mu.Lock()
	known, ok := g.described[path]
	g.mu.Unlock()
	if ok {
		return known, nil
	}
	f, err := os.Open(path)
	if err != nil {
		return mirror.File{}, fmt.Errorf("describe pack: %w", err)
	}
	defer f.Close()
	hash := digest.NewHasher()
	size, err := io.Copy(hash, contextReader{ctx, f})
	if err != nil {
		return mirror.File{}, fmt.Errorf("describe pack: %w", err)
	}
	file := mirror.File{Name: name, Size: size, Digest: hash.Digest().String()}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.described[path] = file
	return file, nil
}

// forget drops what is known of files that are no more.
func (g *Git) forget(home string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for path := range g.described {
		if strings.HasPrefix(path, home+string(filepath.Separator)) {
			delete(g.described, path)
		}
	}
}

// OpenFile implements [mirror.Copies].
func (g *Git) OpenFile(_ context.Context, uid, generation, name string) (io.ReadCloser, error) {
	home, err := g.home(uid)
	if err != nil {
		return nil, err
	}
	if !generationForm.MatchString(generation) || !packForm.MatchString(name) {
		return nil, mirror.ErrNoMirror
	}
	f, err := os.Open(filepath.Join(packFolder(filepath.Join(home, generation)), name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, mirror.ErrNoMirror
	}
	if err != nil {
		return nil, fmt.Errorf("open pack: %w", err)
	}
	return f, nil
}

// Confirm implements [mirror.Copies].
func (g *Git) Confirm(_ context.Context, uid string, c mirror.Content) error {
	home, err := g.home(uid)
	if err != nil {
		return err
	}
	return writeJSON(filepath.Join(home, freshFile), freshness{FreshAt: c.FreshAt, Epoch: c.Epoch})
}

// Adopt implements [mirror.Copies]. Missing packs are added to the current generation. Where that has packs which the copy
// has not, it makes a new one, with links to what both have; the old one stays until the next, for who is reading it.
func (g *Git) Adopt(
	ctx context.Context, uid string, c mirror.Copy, open func(context.Context, mirror.File) (io.ReadCloser, error),
) (mirror.Content, error) {
	home, err := g.home(uid)
	if err != nil {
		return mirror.Content{}, err
	}
	a := &adoption{git: g, uid: uid, home: home, copy: c}
	if err := a.prepare(); err != nil {
		return mirror.Content{}, fmt.Errorf("adopt mirror: %w", err)
	}
	content, err := a.run(ctx, open)
	if err != nil {
		if a.fresh {
			_ = os.RemoveAll(a.dir) // what stays is swept at the next start
		}
		return mirror.Content{}, fmt.Errorf("adopt mirror: %w", err)
	}
	return content, nil
}

// adoption is one copy of another replica's mirror.
type adoption struct {
	git      *Git
	uid      string
	home     string
	copy     mirror.Copy
	previous string // the generation that is current; empty: none is
	dir      string // the one that is written to
	fresh    bool   // dir is a new one, under a temporary name
}

// prepare finds the generation to write to, and makes sure that no name leads elsewhere.
func (a *adoption) prepare() error {
	for _, f := range a.copy.Files {
		if !packForm.MatchString(f.Name) {
			return fmt.Errorf("%q names no pack", f.Name)
		}
	}
	dir, ok := a.git.generation(a.uid)
	if !ok {
		return a.begin()
	}
	a.previous, a.dir = dir, dir
	have, err := wholePacks(dir)
	if err != nil {
		return err
	}
	for _, name := range have {
		if !slices.ContainsFunc(a.copy.Files, func(f mirror.File) bool { return f.Name == name }) {
			return a.begin()
		}
	}
	return nil
}

// begin makes a new generation under a temporary name.
func (a *adoption) begin() error {
	if err := os.MkdirAll(a.home, 0o700); err != nil {
		return err
	}
	dir, err := os.MkdirTemp(a.home, temporaryPattern)
	if err != nil {
		return err
	}
	a.dir, a.fresh = dir, true
	storage := openStorage(dir)
	defer func() { _ = storage.Close() }()
	if _, err := git.Init(storage, nil); err != nil {
		return err
	}
	return os.MkdirAll(packFolder(dir), 0o700)
}

func (a *adoption) run(ctx context.Context, open func(context.Context, mirror.File) (io.ReadCloser, error)) (mirror.Content, error) {
	// Packs come last: whoever lists them finds what belongs to each.
	files := slices.Clone(a.copy.Files)
	slices.SortStableFunc(files, func(x, y mirror.File) int { return order(x) - order(y) })
	for _, f := range files {
		if err := a.take(ctx, f, open); err != nil {
			return mirror.Content{}, fmt.Errorf("%s: %w", f.Name, err)
		}
	}
	return a.commit(ctx)
}

func order(f mirror.File) int {
	if strings.HasSuffix(f.Name, ".pack") {
		return 1
	}
	return 0
}

// take makes one file be there: it is already, or is linked, or is copied.
func (a *adoption) take(ctx context.Context, f mirror.File, open func(context.Context, mirror.File) (io.ReadCloser, error)) error {
	to := filepath.Join(packFolder(a.dir), f.Name)
	if info, err := os.Stat(to); err == nil && info.Size() == f.Size {
		return nil
	}
	if a.fresh && a.previous != "" {
		from := filepath.Join(packFolder(a.previous), f.Name)
		if info, err := os.Stat(from); err == nil && info.Size() == f.Size && os.Link(from, to) == nil {
			return nil
		}
	}
	body, err := open(ctx, f)
	if err != nil {
		return err
	}
	return errors.Join(receive(contextReader{ctx, body}, f, to), body.Close())
}

// receive writes a file under its name once it is whole, what it says it is, and durable.
func receive(body io.Reader, f mirror.File, to string) error {
	temporary, err := os.CreateTemp(filepath.Dir(to), temporaryPackStart)
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(temporary.Name()) }() // gone already where the rename succeeded
	hash := digest.NewHasher()
	size, err := io.Copy(io.MultiWriter(temporary, hash), io.LimitReader(body, f.Size+1))
	if err = errors.Join(err, temporary.Sync(), temporary.Close()); err != nil {
		return err
	}
	if got := hash.Digest().String(); size != f.Size || got != f.Digest {
		return fmt.Errorf("got %d bytes with %s, want %d with %s: %w", size, got, f.Size, f.Digest, digest.ErrMismatch)
	}
	return os.Rename(temporary.Name(), to)
}

// commit makes what was copied the mirror's content, as a fetch does: packs, refs for other tools, the state.
func (a *adoption) commit(ctx context.Context) (mirror.Content, error) {
	packs, err := syncPacks(a.dir)
	if err != nil {
		return mirror.Content{}, err
	}
	c := a.copy.Content
	s := state{
		Generation: filepath.Base(a.dir), Refs: c.Refs, Head: c.Head, DefaultBranch: c.DefaultBranch,
		FreshAt: c.FreshAt, ChangedAt: c.ChangedAt, Epoch: c.Epoch, Packs: packs,
	}
	if err := s.verify(ctx, a.home); err != nil {
		return mirror.Content{}, err
	}
	if err := writeRefs(a.dir, &offer{refs: c.Refs, head: c.Head, defaultBranch: c.DefaultBranch}); err != nil {
		return mirror.Content{}, err
	}
	if err := a.promote(); err != nil {
		return mirror.Content{}, err
	}
	s.Generation = filepath.Base(a.dir)
	if err := writeJSON(filepath.Join(a.home, stateFile), s); err != nil {
		return mirror.Content{}, err
	}
	a.git.setGeneration(a.uid, a.dir)
	return s.content(), a.sweep()
}

// promote gives a new generation its lasting name.
func (a *adoption) promote() error {
	if !a.fresh {
		return nil
	}
	final := filepath.Join(a.home, generationPattern+strings.TrimPrefix(filepath.Base(a.dir), temporaryPattern))
	if err := os.Rename(a.dir, final); err != nil {
		return err
	}
	a.dir, a.fresh = final, false
	return errors.Join(syncDir(a.home), syncDir(filepath.Dir(a.home)))
}

// sweep removes generations before the previous one.
func (a *adoption) sweep() error {
	if a.previous == a.dir {
		return nil
	}
	a.git.forget(a.home)
	entries, err := os.ReadDir(a.home)
	for _, e := range entries {
		path := filepath.Join(a.home, e.Name())
		if e.IsDir() && path != a.dir && path != a.previous {
			err = errors.Join(err, os.RemoveAll(path))
		}
	}
	return err
}
