// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/leatdev/leat/services/gitcache/internal/mirror"
)

// Draft is a generation that is being written to: the current one, which gains packs, or a new one
// under a temporary name. Nothing in it counts before it is committed. It is for one goroutine.
type Draft struct {
	store    *Store
	uid      string
	home     string
	previous string // the generation that is current; empty: none is
	dir      string
	fresh    bool  // dir is a new one, under a temporary name
	taken    int64 // bytes of the disk that were asked for
	doubted  bool  // previous may be damaged
}

// Draft begins to write what shall become next: to the current generation, or to a new one where
// there is none, where it names objects in another way, where one of the two is partial and the
// other is not, or where renew asks for it. Close it.
func (s *Store) Draft(uid string, next mirror.Content, renew bool) (*Draft, error) {
	home, err := s.home(uid)
	if err != nil {
		return nil, err
	}
	d := &Draft{store: s, uid: uid, home: home}
	d.previous, _ = s.generation(uid)
	format := formatOf(next)
	if d.previous != "" && !renew && fits(d.previous, format) && alike(d.previous, next.Partial) {
		d.dir = d.previous
		return d, nil
	}
	if err := os.MkdirAll(home, 0o700); err != nil {
		return nil, fmt.Errorf("make mirror: %w", err)
	}
	if d.dir, err = os.MkdirTemp(home, temporaryPattern); err != nil {
		return nil, fmt.Errorf("make mirror: %w", err)
	}
	d.fresh = true
	if err := writeSkeleton(d.dir, format, next.Partial); err != nil {
		d.Close()
		return nil, fmt.Errorf("make mirror: %w", err)
	}
	return d, nil
}

// Dir is the bare repository to write packs to.
func (d *Draft) Dir() string { return d.dir }

// Empty reports whether the draft holds nothing of the current generation.
func (d *Draft) Empty() bool { return d.fresh }

// Close removes what was written and did not come to count.
func (d *Draft) Close() {
	d.store.giveBack(d.taken)
	d.taken = 0
	if d.fresh {
		_ = os.RemoveAll(d.dir) // what stays is swept at the next start
		return
	}
	_ = sweepPacks(d.dir)
}

// Accept makes what was fetched the mirror's content: c, as of now. It asks what of it is admitted,
// and then the guard. This is the one place where fetched refs become the mirror's; what another
// replica's mirror holds has come through it there.
func (d *Draft) Accept(ctx context.Context, p mirror.FetchParams, c mirror.Content) (mirror.Content, error) {
	c, err := d.admit(ctx, p, c)
	if err != nil {
		return mirror.Content{}, err
	}
	if err := p.Guard(); err != nil {
		return mirror.Content{}, err
	}
	now := time.Now()
	c.FreshAt, c.ChangedAt, c.Epoch = now, now, p.Epoch
	c, err = d.commit(c, nil)
	if err != nil {
		return mirror.Content{}, err
	}
	d.store.retire(ctx, d.home, d.dir)
	return c, nil
}

// Fill makes blobs that were added to a partial mirror count, so that other replicas copy them; all
// else of it stays. It asks the guard first.
func (d *Draft) Fill(guard func() error) (mirror.Content, error) {
	if err := guard(); err != nil {
		return mirror.Content{}, err
	}
	st, err := readState(d.home)
	if err != nil {
		return mirror.Content{}, err
	}
	c := st.content()
	if now := time.Now(); now.After(c.FilledAt) {
		c.FilledAt = now
	} else { // the clock was set back
		c.FilledAt = c.FilledAt.Add(time.Nanosecond)
	}
	return d.commit(c, nil)
}

// commit makes c durable: packs first, then the repository's own refs for other tools, then the
// state.
func (d *Draft) commit(c mirror.Content, verify func(state) error) (mirror.Content, error) {
	packs, err := syncPacks(d.dir)
	if err != nil {
		return mirror.Content{}, fmt.Errorf("sync packs: %w", err)
	}
	st := state{
		Refs: c.Refs, Head: c.Head, DefaultBranch: c.DefaultBranch,
		FreshAt: c.FreshAt, ChangedAt: c.ChangedAt, Epoch: c.Epoch, Packs: packs, Policy: c.Policy,
		Partial: c.Partial, FilledAt: c.FilledAt,
	}
	if verify != nil {
		if err := verify(st); err != nil {
			return mirror.Content{}, err
		}
	}
	if err := writeRefs(d.dir, c); err != nil {
		return mirror.Content{}, fmt.Errorf("write refs: %w", err)
	}
	if err := d.promote(); err != nil {
		return mirror.Content{}, fmt.Errorf("switch generation: %w", err)
	}
	st.Generation = filepath.Base(d.dir)
	if err := writeJSON(filepath.Join(d.home, stateFile), st); err != nil {
		return mirror.Content{}, err
	}
	d.store.setGeneration(d.uid, d.dir)
	d.store.settle(d.uid, st)
	return st.content(), nil
}

// promote gives a new generation its lasting name. From there on Close leaves it: the state may
// name it.
func (d *Draft) promote() error {
	if !d.fresh {
		return nil
	}
	final := filepath.Join(d.home, generationPattern+strings.TrimPrefix(filepath.Base(d.dir), temporaryPattern))
	if err := os.Rename(d.dir, final); err != nil {
		return err
	}
	d.dir, d.fresh = final, false
	return errors.Join(syncDir(d.home), syncDir(filepath.Dir(d.home)))
}

// writeRefs writes packed-refs and HEAD, so that the git command and a person find the mirror as it
// is.
func writeRefs(dir string, c mirror.Content) error {
	var packed bytes.Buffer
	packed.WriteString("# pack-refs with: peeled fully-peeled sorted \n")
	for _, ref := range allRefs(c.Refs) {
		fmt.Fprintf(&packed, "%s %s\n", ref.Object, ref.Name)
		if ref.Commit != "" && ref.Commit != ref.Object {
			fmt.Fprintf(&packed, "^%s\n", ref.Commit)
		}
	}
	if err := writeAtomic(filepath.Join(dir, "packed-refs"), packed.Bytes()); err != nil {
		return err
	}
	head := "ref: refs/heads/main\n"
	switch {
	case c.DefaultBranch != "":
		head = "ref: " + c.DefaultBranch + "\n"
	case c.Head != "":
		head = c.Head + "\n"
	}
	return writeAtomic(filepath.Join(dir, "HEAD"), []byte(head))
}
