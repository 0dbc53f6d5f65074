// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package casdisk_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"pgregory.net/rapid"

	"github.com/leatdev/leat/internal/contract/cas"
	"github.com/leatdev/leat/internal/contract/cas/casdisk"
	"github.com/leatdev/leat/internal/contract/cas/castest"
	"github.com/leatdev/leat/internal/contract/digest"
)

// fault is a failure of one operation of a store.
type fault struct {
	kind  string // one of faultKinds
	after int    // operations that succeed before
}

var faultKinds = []string{"none", "EIO", "ENOSPC", "EMFILE", "flip", "cut"}

// chaos makes one planned fault happen.
type chaos struct {
	plan fault
	ops  int
	seen map[casdisk.Op]bool
}

func (c *chaos) hooks() casdisk.Hooks {
	return casdisk.Hooks{Fault: c.fail, Damage: c.damage}
}

func (c *chaos) fail(op casdisk.Op, _ string) error {
	c.seen[op] = true
	errno := map[string]error{"EIO": syscall.EIO, "ENOSPC": syscall.ENOSPC, "EMFILE": syscall.EMFILE}[c.plan.kind]
	if errno == nil {
		return nil
	}
	if c.ops++; c.ops != c.plan.after+1 {
		return nil
	}
	return errno
}

// damage spares bytes on their way to a caller of Open: no store could notice that.
func (c *chaos) damage(op casdisk.Op, _ string, p []byte) []byte {
	if op == casdisk.OpServe || (c.plan.kind != "flip" && c.plan.kind != "cut") {
		return p
	}
	if c.ops++; c.ops != c.plan.after+1 || len(p) == 0 {
		return p
	}
	if c.plan.kind == "cut" {
		return p[:len(p)/2]
	}
	p[len(p)/2] ^= 4
	return p
}

// machine runs a store through arbitrary actions, and models what the store may do.
type machine struct {
	tb       testing.TB // of the whole test
	rt       *rapid.T   // of this run
	cfg      casdisk.Config
	chaos    *chaos
	store    *casdisk.Store // nil if it could not be opened
	refused  error          // why it could not
	contents [][]byte
	stored   [][]byte // zstd of the contents
}

func newMachine(tb testing.TB, rt *rapid.T, dir string, contents [][]byte) *machine {
	m := &machine{tb: tb, rt: rt, contents: contents, chaos: &chaos{seen: make(map[casdisk.Op]bool)}}
	room := int64(0)
	for _, content := range contents {
		m.stored = append(m.stored, castest.Zstd(tb, content))
		room += int64(len(m.stored[len(m.stored)-1]))
	}
	pinned := digest.FromBytes(contents[0])
	m.cfg = casdisk.Config{
		Dir: dir, MaxBytes: room * 2 / 3, Hooks: m.chaos.hooks(),
		Pinned: func(d digest.Digest) bool { return d == pinned },
	}
	m.cfg.Hooks.Evicted = func(info cas.Info) {
		if info.Digest == pinned {
			rt.Errorf("evicted the pinned blob")
		}
	}
	m.reopen()
	return m
}

func (m *machine) reopen() {
	m.close()
	store, err := casdisk.Open(m.cfg)
	if m.refused = err; err == nil {
		m.store = store
	}
}

func (m *machine) close() {
	if m.store != nil {
		if err := m.store.Close(); err != nil {
			m.rt.Errorf("close: %v", err)
		}
		m.store = nil
	}
}

// expected reports whether a fault may cause the error.
func expected(err error) bool {
	return err == nil || errors.Is(err, cas.ErrNotFound) || errors.Is(err, cas.ErrFull) ||
		errors.Is(err, syscall.EIO) || errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENOSPC)
}

func (m *machine) put(i int) {
	if m.store == nil {
		return
	}
	_, err := m.store.Put(m.tb.Context(), digest.FromBytes(m.contents[i]), bytes.NewReader(m.stored[i]))
	if !expected(err) {
		m.rt.Errorf("put: got %v", err)
	}
}

// fill stores a blob with a follower. A follower that reaches the end must have the right bytes. It
// reads only after the fill, so that a run can be repeated.
func (m *machine) fill(i int) {
	if m.store == nil {
		return
	}
	draft := m.store.Begin(digest.FromBytes(m.contents[i]))
	follower := draft.Follow(m.tb.Context())
	defer follower.Close()
	_, err := draft.Fill(m.tb.Context(), bytes.NewReader(m.stored[i]))
	if !expected(err) {
		m.rt.Errorf("fill: got %v", err)
	}
	got, followed := io.ReadAll(follower)
	if followed == nil && (err != nil || !bytes.Equal(got, m.stored[i])) {
		m.rt.Errorf("follow: reached the end with %d bytes and %v", len(got), err)
	}
}

// read reads a blob. Bytes read to the end must be right.
func (m *machine) read(i int) {
	if m.store == nil {
		return
	}
	blob, err := m.store.Open(m.tb.Context(), digest.FromBytes(m.contents[i]))
	if err != nil {
		if !expected(err) {
			m.rt.Errorf("open: got %v", err)
		}
		return
	}
	defer blob.Close()
	stored, err := io.ReadAll(blob)
	if err != nil {
		return
	}
	// Some bits of zstd have no meaning.
	if got, err := cas.Check(m.tb.Context(), io.Discard, bytes.NewReader(stored), blob.Digest, 1<<20); err != nil || got != blob.Info {
		m.rt.Errorf("read: got %+v, %v, want %+v", got, err, blob.Info)
	}
}

func (m *machine) remove(i int) {
	if m.store == nil {
		return
	}
	if err := m.store.Delete(m.tb.Context(), digest.FromBytes(m.contents[i])); !expected(err) {
		m.rt.Errorf("delete: got %v", err)
	}
}

// rot changes a file behind the store's back.
func (m *machine) rot(how string, which, where int) {
	paths := blobFiles(m.tb, m.cfg.Dir)
	if len(paths) == 0 {
		return
	}
	path := paths[which%len(paths)]
	stored, err := os.ReadFile(path)
	if err != nil {
		m.rt.Fatal(err)
	}
	switch {
	case how == "remove":
		err = os.Remove(path)
	case len(stored) == 0:
	case how == "truncate":
		err = os.Truncate(path, int64(where%len(stored)))
	default:
		stored[where%len(stored)] ^= 1 << (where % 8)
		err = os.WriteFile(path, stored, 0o600)
	}
	if err != nil {
		m.rt.Fatal(err)
	}
}

func blobFiles(tb testing.TB, dir string) []string {
	tb.Helper()
	return files(tb, filepath.Join(dir, "blobs"))
}

// recovered ends all faults, and checks that the store then works and has lost nothing that it
// should have kept.
func (m *machine) recovered() {
	m.chaos.plan = fault{}
	if m.store == nil {
		m.reopen()
	}
	if m.store == nil {
		m.rt.Fatalf("got a store that does not open without faults: %v", m.refused)
	}
	for i := range m.contents { // which finds any damage
		m.read(i)
	}
	info, err := m.store.Put(m.tb.Context(), digest.FromBytes(m.contents[0]), bytes.NewReader(m.stored[0]))
	if stat, err2 := m.store.Stat(m.tb.Context(), info.Digest); err != nil || err2 != nil || stat != info {
		m.rt.Errorf("put on a disk that is well: got %+v, %v and then %+v, %v", info, err, stat, err2)
	}
	m.read(0)
	if left := files(m.tb, filepath.Join(m.cfg.Dir, "tmp")); len(left) != 0 {
		m.rt.Errorf("temporary files: got %v, want none", left)
	}
	m.usageIsRight()
}

func (m *machine) usageIsRight() {
	want := cas.Usage{MaxBytes: m.cfg.MaxBytes}
	for _, path := range blobFiles(m.tb, m.cfg.Dir) {
		stat, err := os.Stat(path)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			m.rt.Fatal(err)
		}
		want.Bytes += stat.Size()
		want.Blobs++
	}
	if got, err := m.store.Usage(m.tb.Context()); err != nil || got != want || got.Bytes > got.MaxBytes {
		m.rt.Errorf("usage: got %+v, %v, want the sums of the disk: %+v", got, err, want)
	}
}

// act performs the action that the numbers select.
func (m *machine) act(action string, i int, f fault) {
	m.chaos.plan, m.chaos.ops = f, 0
	switch action {
	case "put":
		m.put(i)
	case "fill":
		m.fill(i)
	case "read":
		m.read(i)
	case "delete":
		m.remove(i)
	case "restart":
		m.reopen()
	default:
		m.rot(action, i, f.after)
	}
}

var actions = []string{"put", "fill", "read", "delete", "restart", "flip", "truncate", "remove"}

// TestModel makes any operation of the store fail, return wrong bytes or lose bytes, and damages
// its files, in any order. The store must never return a wrong byte, and once the disk works again
// everything works and is counted.
func TestModel(t *testing.T) {
	t.Parallel()
	contents := [][]byte{
		castest.Noise(0, 300), castest.Noise(1, 150<<10), bytes.Repeat([]byte("text "), 1000),
		castest.Noise(3, 100<<10), castest.Noise(4, 90<<10), castest.Noise(5, 5000),
	}
	seen := make(map[casdisk.Op]bool)
	rapid.Check(t, func(rt *rapid.T) {
		m := newMachine(t, rt, t.TempDir(), contents)
		defer m.close()
		for step := range rapid.IntRange(1, 16).Draw(rt, "steps") {
			action := rapid.SampledFrom(actions).Draw(rt, fmt.Sprint("action ", step))
			i := rapid.IntRange(0, len(contents)-1).Draw(rt, fmt.Sprint("content ", step))
			f := fault{rapid.SampledFrom(faultKinds).Draw(rt, "kind"), rapid.IntRange(0, 30).Draw(rt, "after")}
			m.act(action, i, f)
			if rapid.IntRange(0, 3).Draw(rt, "recover") == 0 {
				m.recovered()
			}
		}
		m.recovered()
		for op := range m.chaos.seen {
			seen[op] = true
		}
	})
	for _, op := range []casdisk.Op{
		casdisk.OpMkdir, casdisk.OpLock, casdisk.OpList, casdisk.OpCreate, casdisk.OpWrite, casdisk.OpSync, casdisk.OpRename,
		casdisk.OpSyncDir, casdisk.OpOpen, casdisk.OpStat, casdisk.OpRead, casdisk.OpServe, casdisk.OpRemove, casdisk.OpTouch,
	} {
		if !seen[op] {
			t.Errorf("%s: got no such operation, want each to have been tried", op)
		}
	}
}
