// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package pack_test

import (
	"bytes"
	"context"
	"crypto/sha1"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/leatdev/leat/services/gitcache/internal/pack"
)

// tight is memory that is enough for any pack of the fuzzer. It returns errTight for requests
// beyond that.
type tight struct{ plenty }

var errTight = errors.New("more memory than a small pack may have")

func (tight) Acquire(_ context.Context, n int64) (func(), error) {
	if n > 1<<28 {
		return nil, errTight
	}
	return func() {}, nil
}

// program makes a pack from bytes that a fuzzer chose: whole objects, deltas with any operations,
// correct and wrong sizes, and bases of every kind. It adds the checksums of zlib, which a fuzzer
// would hardly guess.
type program struct {
	rest []byte
	out  hostile
	ids  [][sha1.Size]byte
}

func (p *program) next() byte {
	if len(p.rest) == 0 {
		return 0
	}
	b := p.rest[0]
	p.rest = p.rest[1:]
	return b
}

func (p *program) take(n int) []byte {
	n = min(n, len(p.rest))
	taken := p.rest[:n]
	p.rest = p.rest[n:]
	return taken
}

func (p *program) run(t testing.TB) []byte {
	t.Helper()
	for len(p.rest) > 0 && len(p.out.starts) < 300 {
		op := p.next()
		switch op % 8 {
		case 0, 1, 2, 3:
			p.whole(t, op%4+1, op>>3)
		case 4, 5:
			p.delta(t, op>>3, func(head int) []byte { return append(size(6, head), p.distance()...) })
		case 6:
			p.delta(t, op>>3, func(head int) []byte { return append(size(7, head), p.id()...) })
		case 7: // a chain of the same delta
			delta, n := p.take(int(p.next()%16)), int(p.next())
			for range n {
				p.out.object(t, append(size(6, len(delta)), p.back(1)...), delta, 0)
			}
		}
	}
	if p.out.data == nil {
		p.out.data = []byte("PACK\x00\x00\x00\x02\x00\x00\x00\x00")
	}
	return p.out.pack()
}

func (p *program) whole(t testing.TB, kind, wrong byte) {
	t.Helper()
	content := bytes.Repeat(p.take(int(p.next()%32)), 1+int(p.next())*int(p.next()%64))
	p.ids = append(p.ids, sha1.Sum(fmt.Appendf(nil, "%s %d\x00%s", [...]string{"", "commit", "tree", "blob", "tag"}[kind], len(content), content)))
	p.out.object(t, size(kind, len(content)+int(wrong/31)), content, len(content))
}

func (p *program) delta(t testing.TB, wrong byte, head func(size int) []byte) {
	t.Helper()
	delta := binary.AppendUvarint(nil, uint64(p.next())<<(p.next()%40))
	delta = binary.AppendUvarint(delta, uint64(p.next())<<(p.next()%40))
	if len(p.out.sizes) > 0 && wrong%2 == 0 { // a well-formed delta with a likely base size, so that some deltas apply
		delta = deltaOf(p.out.sizes[len(p.out.sizes)-1]+16, "sixteen bytes...")
	}
	delta = append(delta, p.take(int(p.next()%64))...)
	p.out.object(t, head(len(delta)+int(wrong/31)), delta, 0)
}

// back returns the encoded distance to the n-th object before the next one.
func (p *program) back(n int) []byte {
	if len(p.out.starts) == 0 {
		return []byte{1}
	}
	n = min(n, len(p.out.starts))
	return distance(len(p.out.data) - p.out.starts[len(p.out.starts)-n])
}

func (p *program) distance() []byte {
	b := p.next()
	if b%16 == 15 {
		return distance(1 + int(b)*int(p.next()))
	}
	return p.back(1 + int(b%16))
}

func distance(back int) []byte {
	digits := []byte{byte(back & 0x7f)}
	for back >>= 7; back > 0; back >>= 7 {
		back--
		digits = append([]byte{0x80 | byte(back&0x7f)}, digits...)
	}
	return digits
}

func (p *program) id() []byte {
	if len(p.ids) == 0 {
		return make([]byte, sha1.Size)
	}
	return p.ids[int(p.next())%len(p.ids)][:]
}

// gitAccepts reports whether git indexes a pack. judged is false if git ran out of time or memory,
// or found the pack too large.
func gitAccepts(t *testing.T, path string) (accepted, judged bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "git", "index-pack", "--threads=1", "-o", filepath.Join(t.TempDir(), "git.idx"), path)
	cmd.Env = append(os.Environ(), "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null", "LC_ALL=C")
	said, err := cmd.CombinedOutput()
	if ctx.Err() != nil || bytes.Contains(said, []byte("ut of memory")) || bytes.Contains(said, []byte("too large")) {
		return false, false
	}
	return err == nil, true
}

// FuzzSecReceiveLikeGit checks that Receive and git accept the same packs and write the same index,
// and that Receive allocates a bounded amount. Only Receive rejects packs by [pack.LimitError], by
// memory, and by version 3 of the format, which no program writes.
func FuzzSecReceiveLikeGit(f *testing.F) {
	dir := history(f, 3)
	raw := func(data []byte) { f.Add(append([]byte{0}, data...)) }
	raw(packed(f, dir, "--delta-base-offset"))
	raw(packed(f, dir))
	raw(comb(f, 20, 1000).pack())
	raw([]byte("PACK\x00\x00\x00\x03\x00\x00\x00\x00" + "12345678901234567890"))
	var claims hostile
	claims.whole(f, 3, []byte("x"))
	delta := append(binary.AppendUvarint([]byte{1}, 1<<32), 1, 'y')
	claims.object(f, append(size(6, len(delta)), distance(len(claims.data)-claims.starts[0])...), delta, 0)
	raw(claims.pack())
	for _, seed := range []string{
		"\x01", "\x01\x02\x05hello\x02\x03\x04\x00\x00\x00\x00\x01\x10", "\x01\x02\x01x\x10\x10\x06\x00\x00\x00\x00\x00\x00\x04\x01\x01\x01\x01\x07\x04\x01\x02\x03\x04\xff",
		"\x01\x02\x10abcdefghijklmnop\x00\x00\x04\x00\x00\x00\x00\x00\x01\x07\x05\x10\x10\x90\x10\xff\xff", "\x01\x02\x00\x00\x00\x07\x02\x00\x00\x03",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) == 0 {
			return
		}
		if data[0] == 0 {
			if data = bytes.Clone(data[1:]); len(data) > sha1.Size {
				sum := sha1.Sum(data[:len(data)-sha1.Size])
				copy(data[len(data)-sha1.Size:], sum[:])
			}
		} else {
			data = (&program{rest: data[1:]}).run(t)
		}
		into := t.TempDir()
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		defer cancel()
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		got, err := pack.Receive(ctx, into, bytes.NewReader(data), tight{})
		runtime.ReadMemStats(&after)
		if ctx.Err() != nil {
			t.Fatalf("took two minutes for %d bytes", len(data))
		}
		if limit := int64(pack.WorkBase) + 1000*int64(len(data)); got.Made > limit {
			t.Errorf("made %d bytes, want at most %d", got.Made, limit)
		}
		// Total allocations exceed the memory held at once, but have to stay in proportion to the
		// bytes made.
		if took, limit := int64(after.TotalAlloc-before.TotalAlloc), 4<<30+4*got.Made; took > limit {
			t.Errorf("allocated %d bytes for a pack of %d that made %d, want at most %d", took, len(data), got.Made, limit)
		}
		_, limited := errors.AsType[*pack.LimitError](err)
		if limited || errors.Is(err, errTight) || (len(data) > 7 && data[7] == 3) {
			wantEmpty(t, into)
			return
		}
		path := filepath.Join(into, "git.pack")
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		accepted, judged := gitAccepts(t, path)
		if judged && accepted != (err == nil) {
			t.Fatalf("got %v, and git accepts it: %t", err, accepted)
		}
		if err == nil {
			wantGitsIndex(t, into, got.Name)
		}
	})
}
