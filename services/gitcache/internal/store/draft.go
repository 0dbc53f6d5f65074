// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/leatdev/leat/internal/kit/durable"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
)

// Draft is a generation that is being written to: the current one, which gains packs, or a new one
// under a temporary name. Nothing in it counts before it is committed. It is for one goroutine.
type Draft struct {
	store    *Store
	uid      string
	home     string
	previous string // the generation that was current at the beginning; empty: there was none
	dir      string // the generation that is written to
	// temporary is the name under which a new generation was made; empty for the current one. The
	// draft is a user of that folder, so that another writer's commit does not remove it.
	temporary string
	reserved  int64 // bytes of the disk
	isDoubted bool  // previous may be damaged
}

// Draft begins to write what shall become next: to the current generation, or to a new one where
// there is none, where the current one cannot take next (it names objects in another way, or one of
// the two is partial and the other is not), or where renew asks for it. The caller closes it once.
func (s *Store) Draft(uid string, next mirror.Content, renew bool) (*Draft, error) {
	home, err := mirror.Folder(s.params.Dir, uid)
	if err != nil {
		return nil, err
	}
	d := &Draft{store: s, uid: uid, home: home, previous: s.generations.get(uid)}
	if d.previous != "" && !renew && canTake(d.previous, next) {
		d.dir = d.previous
		return d, nil
	}
	d.temporary = filepath.Join(home, temporaryPrefix+rand.Text())
	d.dir = d.temporary
	s.generations.hold(d.temporary) // before it can be found
	cfg, _ := configFor(next)
	if err := makeGeneration(d.dir, cfg); err != nil {
		d.Close()
		return nil, fmt.Errorf("make mirror: %w", err)
	}
	return d, nil
}

// Dir returns the bare repository to write packs to.
func (d *Draft) Dir() string { return d.dir }

// Empty reports whether the draft holds nothing of the current generation.
func (d *Draft) Empty() bool { return d.dir == d.temporary }

// Close removes what was written and not committed.
func (d *Draft) Close() {
	d.store.disk.release(d.reserved)
	if d.Empty() {
		_ = os.RemoveAll(d.dir) // what stays is swept when the mirror is loaded next
	} else {
		_ = sweepPacks(d.dir)
	}
	if d.temporary != "" {
		d.store.generations.leave(d.temporary) // nothing has that name any more
	}
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
	st, err := d.commit(c, nil)
	if err != nil {
		return mirror.Content{}, err
	}
	d.store.retire(ctx, d.home, d.dir)
	return st.content(), nil
}

// admit asks the repository's policy what of c is delivered.
func (d *Draft) admit(ctx context.Context, p mirror.FetchParams, c mirror.Content) (mirror.Content, error) {
	if p.Admit == nil {
		return c, nil
	}
	reader, err := d.store.Objects(d.dir)
	if err != nil {
		return mirror.Content{}, fmt.Errorf("open what was fetched: %w", err)
	}
	c, err = p.Admit(ctx, reader, c)
	return c, errors.Join(err, reader.Close())
}

// Fill makes blobs that were added to a partial mirror count, so that other replicas copy them; the
// rest of the mirror stays. It asks the guard first.
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
	st, err = d.commit(c, nil)
	return st.content(), err
}

// commit makes c durable and current: packs first, then the repository's own refs for other tools,
// then the state. Before any of it counts it asks verify, if there is one.
func (d *Draft) commit(c mirror.Content, verify func(state) error) (state, error) {
	packs, err := syncPacks(d.dir)
	if err != nil {
		return state{}, fmt.Errorf("sync packs: %w", err)
	}
	if verify != nil {
		if err := verify(state{Content: c, Packs: packs}); err != nil {
			return state{}, err
		}
	}
	if err := writeRefs(d.dir, c); err != nil {
		return state{}, err
	}
	if err := d.promote(); err != nil {
		return state{}, fmt.Errorf("switch generation: %w", err)
	}
	st := state{Generation: filepath.Base(d.dir), Content: c, Packs: packs}
	if err := writeJSON(filepath.Join(d.home, stateFile), st); err != nil {
		return state{}, err
	}
	d.store.makeCurrent(d.uid, d.dir, st)
	return st, nil
}

// promote gives a new generation its lasting name. From here on Close leaves it: the state may name
// it.
func (d *Draft) promote() error {
	if !d.Empty() {
		return nil
	}
	final := filepath.Join(d.home, generationPrefix+strings.TrimPrefix(filepath.Base(d.dir), temporaryPrefix))
	if err := os.Rename(d.dir, final); err != nil {
		return err
	}
	d.dir = final
	return errors.Join(durable.SyncDir(d.home), durable.SyncDir(filepath.Dir(d.home)))
}

// reserve asks for room that is given back when the draft is closed: from then on its mirror's
// account has the bytes.
func (d *Draft) reserve(bytes int64) error {
	err := d.store.disk.reserve(bytes, d.previous == "")
	if full, ok := errors.AsType[*mirror.UpstreamError](err); ok {
		full.Message = fmt.Sprintf("More than %s are needed. %s", formatBytes(d.reserved+bytes), full.Message)
	}
	if err == nil {
		d.reserved += bytes
	}
	return err
}

// Limit returns a reader of what r holds that fails where the disk has no room for it.
func (d *Draft) Limit(r io.Reader) io.Reader { return &limitedReader{draft: d, below: r} }

// limitedReader reserves room for what it reads.
type limitedReader struct {
	draft  *Draft
	below  io.Reader
	failed error // of an earlier read
}

// Read implements io.Reader.
func (l *limitedReader) Read(p []byte) (int, error) {
	if l.failed != nil {
		return 0, l.failed
	}
	n, err := l.below.Read(p)
	if l.failed = l.draft.store.params.Limits.fault("arriving"); l.failed == nil {
		l.failed = l.draft.reserve(int64(n))
	}
	if l.failed != nil {
		return 0, l.failed
	}
	return n, err
}
