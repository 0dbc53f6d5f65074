// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package pack_test

import (
	"bytes"
	"compress/zlib"
	"context"
	"crypto/sha1"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/leatdev/leat/internal/testkit/await"
	"github.com/leatdev/leat/services/gitcache/internal/pack"
)

// hostile writes packs of many objects quickly. Its deltas copy all of their base, and add or
// replace a few bytes.
type hostile struct {
	data   []byte
	starts []int
	sizes  []int
	deltas int64 // bytes that all deltas make
	zlib   *zlib.Writer
}

func (h *hostile) object(t testing.TB, head, body []byte, size int) int {
	t.Helper()
	return h.deflated(head, h.deflate(t, body), size)
}

// deflated adds an object whose content is compressed already.
func (h *hostile) deflated(head, body []byte, size int) int {
	if h.data == nil {
		h.data = []byte("PACK\x00\x00\x00\x02\x00\x00\x00\x00")
	}
	h.starts, h.sizes = append(h.starts, len(h.data)), append(h.sizes, size)
	h.data = append(append(h.data, head...), body...)
	return len(h.starts) - 1
}

// deflate compresses the content of an object.
func (h *hostile) deflate(t testing.TB, body []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	if h.zlib == nil {
		h.zlib, _ = zlib.NewWriterLevel(&out, zlib.BestCompression)
	} else {
		h.zlib.Reset(&out)
	}
	_, err := h.zlib.Write(body)
	if err = errors.Join(err, h.zlib.Close()); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func (h *hostile) whole(t testing.TB, kind byte, content []byte) int {
	t.Helper()
	return h.object(t, size(kind, len(content)), content, len(content))
}

// deltaOf returns a delta that copies a base except for its last bytes, which it replaces by text.
func deltaOf(baseSize int, text string) []byte {
	delta := binary.AppendUvarint(nil, uint64(baseSize))
	delta = binary.AppendUvarint(delta, uint64(baseSize))
	for at, left := 0, baseSize-len(text); left > 0; {
		n := min(left, 0xffffff)
		delta = append(delta, 0xff, byte(at), byte(at>>8), byte(at>>16), byte(at>>24), byte(n), byte(n>>8), byte(n>>16))
		at, left = at+n, left-n
	}
	return append(append(delta, byte(len(text))), text...)
}

// offset adds a delta whose base is named by its distance.
func (h *hostile) offset(t testing.TB, base int, text string) int {
	t.Helper()
	delta := deltaOf(h.sizes[base], text)
	back := len(h.data) - h.starts[base]
	distance := []byte{byte(back & 0x7f)}
	for back >>= 7; back > 0; back >>= 7 {
		back--
		distance = append([]byte{0x80 | byte(back&0x7f)}, distance...)
	}
	h.deltas += int64(h.sizes[base])
	return h.object(t, append(size(6, len(delta)), distance...), delta, h.sizes[base])
}

// reference adds a delta whose base is named by its id.
func (h *hostile) reference(t testing.TB, base [sha1.Size]byte, baseSize int, text string) int {
	t.Helper()
	delta := deltaOf(baseSize, text)
	h.deltas += int64(baseSize)
	return h.object(t, append(size(7, len(delta)), base[:]...), delta, baseSize)
}

func (h *hostile) pack() []byte {
	data := bytes.Clone(h.data)
	binary.BigEndian.PutUint32(data[8:], uint32(len(h.starts)))
	sum := sha1.Sum(data)
	return append(data, sum[:]...)
}

func blobID(content []byte) [sha1.Size]byte {
	return sha1.Sum(fmt.Appendf(nil, "blob %d\x00%s", len(content), content))
}

// comb returns a pack with a chain of deltas and another delta beside each link. A resolver that
// follows the chain to its end first needs every object again on its way back.
func comb(t testing.TB, links, objectSize int) *hostile {
	t.Helper()
	h := &hostile{}
	at := h.whole(t, 3, make([]byte, objectSize))
	for i := range links {
		h.offset(t, at, fmt.Sprintf("tooth %d", i))
		at = h.offset(t, at, fmt.Sprintf("chain %d", i))
	}
	return h
}

// besideGit receives a pack and also indexes it with git, and compares the indexes.
func besideGit(t *testing.T, data []byte) pack.Received {
	t.Helper()
	into := t.TempDir()
	path := filepath.Join(into, "git.pack")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	git(t, into, "", "index-pack", "-o", filepath.Join(into, "git.idx"), path)
	got, err := pack.Receive(await.Context(t), into, bytes.NewReader(data), plenty{})
	if err != nil {
		t.Fatal(err)
	}
	wantGitsIndex(t, into, got.Name)
	return got
}

// TestSecDeltaChainsCostWhatTheyMake indexes a pack of about 130 kB, which takes minutes if objects
// are made again and again.
func TestSecDeltaChainsCostWhatTheyMake(t *testing.T) {
	t.Parallel()
	for name, h := range map[string]*hostile{"2,001 objects": comb(t, 1000, 128<<10), "4,001 objects": comb(t, 2000, 128<<10)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := besideGit(t, h.pack())
			if got.Made != h.deltas {
				t.Errorf("got %d bytes made for %d bytes of objects, want each made once", got.Made, h.deltas)
			}
		})
	}
}

// TestSecBasesNamedByID indexes a comb of deltas whose bases are named by id. The resolver cannot
// see beforehand which child has descendants, so it makes objects again, but many at a time.
func TestSecBasesNamedByID(t *testing.T) {
	t.Parallel()
	const links, objectSize = 1000, 128 << 10
	h, content := &hostile{}, make([]byte, objectSize)
	h.whole(t, 3, content)
	for i := range links {
		id := blobID(content)
		h.reference(t, id, objectSize, fmt.Sprintf("tooth %d", i))
		link := fmt.Sprintf("chain %d", i)
		h.reference(t, id, objectSize, link)
		copy(content[objectSize-len(link):], link)
	}
	if got := besideGit(t, h.pack()); got.Made > 6*h.deltas {
		t.Errorf("got %d bytes made for %d bytes of objects, want less than six times as many", got.Made, h.deltas)
	}
}

// TestSecManyTinyDeltas indexes chains of the greatest allowed length, and checks that a longer
// chain is rejected.
func TestSecManyTinyDeltas(t *testing.T) {
	t.Parallel()
	var h hostile
	root := h.whole(t, 3, make([]byte, 64))
	for c := range 6 {
		at := root
		for i := range pack.MaxChain {
			at = h.offset(t, at, fmt.Sprintf("%d/%d", c, i))
		}
	}
	if got := besideGit(t, h.pack()); got.Made != h.deltas {
		t.Errorf("got %d bytes made for %d bytes of objects, want each made once", got.Made, h.deltas)
	}
	h.offset(t, len(h.starts)-1, "one more")
	wantLimit(t, h.pack(), pack.MaxChain+1, pack.MaxChain)
}

// wantLimit checks that Receive rejects a pack because of a bound.
func wantLimit(t *testing.T, data []byte, need, limit int64) {
	t.Helper()
	memory, into := &scarce{}, t.TempDir()
	_, err := pack.Receive(t.Context(), into, bytes.NewReader(data), memory)
	beyond, ok := errors.AsType[*pack.LimitError](err)
	if !ok || beyond.Need < need || beyond.Limit != limit || len(memory.asked) != 1 || memory.held != 0 {
		t.Errorf("got %v with %v asked for and %d held, want a bound of %d exceeded by %d, and memory asked for once", err, memory.asked, memory.held, limit, need)
	}
	wantEmpty(t, into)
}

// TestSecChainsNamedByID checks the bound on chains whose bases are named by id, which the scan
// cannot count.
func TestSecChainsNamedByID(t *testing.T) {
	t.Parallel()
	var h hostile
	content := make([]byte, 64)
	h.whole(t, 3, content)
	for i := range pack.MaxChain + 1 {
		text := fmt.Sprintf("link %d", i)
		h.reference(t, blobID(content), len(content), text)
		copy(content[len(content)-len(text):], text)
	}
	wantLimit(t, h.pack(), pack.MaxChain+1, pack.MaxChain)
}

// TestSecDeltasThatMakeTooMuch checks that 20 kB that would expand to more than 8 GiB are rejected
// before any delta is applied or memory for it is reserved.
func TestSecDeltasThatMakeTooMuch(t *testing.T) {
	t.Parallel()
	var h hostile
	const large = 16 << 20
	at := h.whole(t, 3, make([]byte, large))
	for i := range pack.WorkBase/large + 40 {
		at = h.offset(t, at, fmt.Sprintf("link %d", i))
	}
	data := h.pack()
	limit := int64(pack.WorkBase) + 1000*int64(len(data)-sha1.Size)
	wantLimit(t, data, limit+1, limit)
}

// TestSecMadeAgainCounts checks that objects made more than once count as work, although the sum
// beforehand does not include them.
func TestSecMadeAgainCounts(t *testing.T) {
	t.Parallel()
	const links, objectSize = 100, 1 << 20
	h, content := &hostile{}, make([]byte, objectSize)
	h.whole(t, 3, content)
	for i := range links {
		id := blobID(content)
		h.reference(t, id, objectSize, fmt.Sprintf("tooth %d", i))
		link := fmt.Sprintf("chain %d", i)
		h.reference(t, id, objectSize, link)
		copy(content[objectSize-len(link):], link)
	}
	_, err := pack.ReceiveWithin(t.Context(), t.TempDir(), bytes.NewReader(h.pack()), plenty{}, h.deltas)
	if _, ok := errors.AsType[*pack.LimitError](err); !ok {
		t.Errorf("got %v, want a bound exceeded", err)
	}
	if got, err := pack.ReceiveWithin(t.Context(), t.TempDir(), bytes.NewReader(h.pack()), plenty{}, 8*h.deltas); err != nil {
		t.Errorf("got %v with eight times the bytes of the objects, want them to be enough", err)
	} else if got.Made <= h.deltas {
		t.Errorf("got %d bytes made of %d, want some made again: else this test tests nothing", got.Made, h.deltas)
	}
}

// TestSecLargeTrees checks that commits, trees and tags that are too large are rejected, because
// every reader would hold them in memory.
func TestSecLargeTrees(t *testing.T) {
	t.Parallel()
	var compressor hostile
	half := make([]byte, pack.MaxParsed/2)
	deflatedWhole, deflatedHalf := compressor.deflate(t, make([]byte, pack.MaxParsed+1)), compressor.deflate(t, half)
	for _, kind := range []byte{1, 2, 4} {
		var whole, made hostile
		whole.deflated(size(kind, pack.MaxParsed+1), deflatedWhole, pack.MaxParsed+1)
		wantLimit(t, whole.pack(), pack.MaxParsed+1, pack.MaxParsed)
		made.deflated(size(kind, len(half)), deflatedHalf, len(half))
		delta := binary.AppendUvarint(binary.AppendUvarint(nil, pack.MaxParsed/2), pack.MaxParsed+10)
		for range 3 {
			delta = append(delta, 0xf0, 0xff, 0xff, 0xff)
		}
		head := append(size(7, len(delta)), bytes.Repeat([]byte{0}, sha1.Size)...)
		id := sha1.Sum(append(fmt.Appendf(nil, "%s %d\x00", [...]string{1: "commit", 2: "tree", 4: "tag"}[kind], len(half)), half...))
		copy(head[len(head)-sha1.Size:], id[:])
		made.object(t, head, delta, pack.MaxParsed+10)
		_, err := pack.Receive(t.Context(), t.TempDir(), bytes.NewReader(made.pack()), plenty{})
		if beyond, ok := errors.AsType[*pack.LimitError](err); !ok || beyond.Limit != pack.MaxParsed {
			t.Errorf("type %d: got %v, want it refused", kind, err)
		}
	}
}

// TestSecTheSameObjectOftenAndManyDeltasOfIt checks that the resolver looks for the deltas of an
// object once, however often the object is in the pack.
func TestSecTheSameObjectOftenAndManyDeltasOfIt(t *testing.T) {
	t.Parallel()
	var h hostile
	content := make([]byte, 32)
	for range 50_000 {
		h.starts, h.sizes = append(h.starts, 0), append(h.sizes, 0) // only counted: all objects have the same bytes
	}
	var once hostile
	once.whole(t, 3, content)
	h.data = append([]byte("PACK\x00\x00\x00\x02\x00\x00\x00\x00"), bytes.Repeat(once.data[12:], 50_000)...)
	var reference hostile
	reference.reference(t, blobID(content), len(content), "the same")
	h.data = append(h.data, bytes.Repeat(reference.data[12:], 50_000)...)
	for range 50_000 {
		h.starts, h.sizes = append(h.starts, 0), append(h.sizes, 0)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	got, err := pack.Receive(ctx, t.TempDir(), bytes.NewReader(h.pack()), plenty{})
	if err != nil || got.Objects != 100_000 || ctx.Err() != nil {
		t.Errorf("got %d objects, %v and %v, want 100,000 within a minute", got.Objects, err, ctx.Err())
	}
}

// countdown is a context that ends after left further calls of Err once it was started.
type countdown struct {
	context.Context
	started bool
	left    int
	looks   int // calls of Err after the end
}

func (c *countdown) Err() error {
	if !c.started {
		return nil
	}
	if c.left--; c.left >= 0 {
		return nil
	}
	c.looks++
	return context.Canceled
}

// starter starts the countdown when Receive reserves memory for a large object, right before it
// applies deltas.
type starter struct {
	plenty
	ctx *countdown
}

func (s starter) Acquire(context.Context, int64) (func(), error) {
	s.ctx.started = true
	return func() {}, nil
}

// TestSecDeltasEndWithTheContext ends the context after Receive has begun to apply deltas.
func TestSecDeltasEndWithTheContext(t *testing.T) {
	t.Parallel()
	var h hostile
	const large = 12 << 20
	at := h.whole(t, 3, make([]byte, large))
	for i := range 100 {
		at = h.offset(t, at, fmt.Sprintf("link %d", i))
	}
	data := h.pack()
	for _, looks := range []int{1, 2, 5, 20, 100} {
		ctx := &countdown{Context: t.Context(), left: looks}
		into := t.TempDir()
		_, err := pack.Receive(ctx, into, bytes.NewReader(data), starter{ctx: ctx})
		if err == nil || !ctx.started || ctx.looks == 0 || ctx.looks > 4 {
			t.Errorf("%d looks: got %v and %d looks at a context that had ended, want an error at once", looks, err, ctx.looks)
		}
		wantEmpty(t, into)
	}
}
