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
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/leatdev/leat/services/gitcache/internal/pack"
)

// plenty is memory without a bound.
type plenty struct{}

func (plenty) Acquire(context.Context, int64) (func(), error) { return func() {}, nil }
func (plenty) TryAcquire(int64) (func(), bool)                { return func() {}, true }

// scarce has none at once, and then the requested amount; it counts.
type scarce struct {
	asked []int64
	held  int64
	err   error
}

func (s *scarce) TryAcquire(int64) (func(), bool) { return nil, false }

func (s *scarce) Acquire(_ context.Context, n int64) (func(), error) {
	if s.err != nil {
		return nil, s.err
	}
	s.asked = append(s.asked, n)
	s.held += n
	return func() { s.held -= n }, nil
}

func git(t testing.TB, dir, stdin string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "git", args...)
	cmd.Dir, cmd.Stdin = dir, strings.NewReader(stdin)
	cmd.Env = append(os.Environ(), "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, &stderr)
	}
	return string(out)
}

// history is a repository with files of all sizes that change a little from commit to commit.
func history(t testing.TB, commits int) string {
	t.Helper()
	dir := t.TempDir()
	git(t, dir, "", "init", "--quiet", "--bare", "--initial-branch=main")
	random := rand.New(rand.NewPCG(1, 2))
	large := make([]byte, 3<<20)
	for i := range large {
		large[i] = byte(random.Uint32())
	}
	var script strings.Builder
	for c := range commits {
		fmt.Fprintf(&script, "commit refs/heads/main\ncommitter A <a@example.com> %d +0000\ndata 4\nnext\n", 1700000000+c)
		for range 5 {
			body := strings.Repeat(fmt.Sprintf("line of file\nand %d\n", random.IntN(3)), random.IntN(200)) + fmt.Sprint(c)
			fmt.Fprintf(&script, "M 100644 inline d%d/f%d\ndata %d\n%s\n", random.IntN(9), random.IntN(40), len(body), body)
		}
		if c%20 == 19 {
			large[random.IntN(len(large))]++
			fmt.Fprintf(&script, "M 100644 inline large\ndata %d\n%s\n", len(large), large)
		}
	}
	script.WriteString("tag v1\nfrom refs/heads/main\ntagger A <a@example.com> 1700000000 +0000\ndata 3\none\ndone\n")
	git(t, dir, script.String(), "fast-import", "--quiet", "--done")
	return dir
}

// packed returns the pack of reachable objects, as git makes it with those options.
func packed(t testing.TB, dir string, options ...string) []byte {
	t.Helper()
	args := append([]string{"pack-objects", "--revs", "--all", "--quiet", "--stdout", "--no-reuse-delta"}, options...)
	return []byte(git(t, dir, "", args...))
}

// wantGitsIndex compares an index with the one that git makes of the same pack.
func wantGitsIndex(t *testing.T, dir, name string) {
	t.Helper()
	want := filepath.Join(t.TempDir(), "want.idx")
	git(t, dir, "", "index-pack", "-o", want, filepath.Join(dir, name+".pack"))
	w, err := os.ReadFile(want)
	if err != nil {
		t.Fatal(err)
	}
	g, err := os.ReadFile(filepath.Join(dir, name+".idx"))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(g, w) && !slices.Equal(indexRows(t, g), indexRows(t, w)) {
		t.Errorf("got an index of %d bytes, want git's of %d with the same bytes", len(g), len(w))
	}
}

// indexRows returns the rows of an index of version 2 in a total order. A pack may hold an object
// twice. Git orders the rows of one object as its C library happens to sort them.
func indexRows(t *testing.T, index []byte) []string {
	t.Helper()
	const head, fanout, trailer = 8, 4 * 256, 2 * sha1.Size
	if len(index) < head+fanout+trailer {
		t.Fatalf("an index of %d bytes is too short", len(index))
	}
	n := int(binary.BigEndian.Uint32(index[head+fanout-4:]))
	if want := head + fanout + n*(sha1.Size+8) + trailer; len(index) != want {
		t.Fatalf("an index of %d objects: got %d bytes, want %d", n, len(index), want)
	}
	ids := index[head+fanout:]
	sums := ids[n*sha1.Size:]
	offsets := sums[n*4:]
	rows := make([]string, n)
	for i := range rows {
		rows[i] = string(ids[i*sha1.Size:(i+1)*sha1.Size]) + string(sums[i*4:i*4+4]) + string(offsets[i*4:i*4+4])
	}
	slices.Sort(rows)
	return rows
}

func TestIndexIsGits(t *testing.T) {
	t.Parallel()
	dir := history(t, 60)
	for name, options := range map[string][]string{
		"offset deltas":     {"--delta-base-offset", "--window=20", "--depth=50"},
		"reference deltas":  {"--window=20", "--depth=50"},
		"deep chains":       {"--delta-base-offset", "--window=250", "--depth=4000"},
		"no deltas":         {"--window=0"},
		"stored, not small": {"--delta-base-offset", "--compression=0"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			data, into := packed(t, dir, options...), t.TempDir()
			for memory, m := range map[string]pack.Memory{"at once": plenty{}, "later": &scarce{}} {
				got, err := pack.Receive(t.Context(), into, iotest.HalfReader(bytes.NewReader(data)), m)
				if err != nil {
					t.Fatalf("%s: %v", memory, err)
				}
				if got.Bytes != int64(len(data)) {
					t.Errorf("%s: got %d bytes, want %d", memory, got.Bytes, len(data))
				}
				wantGitsIndex(t, into, got.Name)
			}
			if left, _ := filepath.Glob(filepath.Join(into, pack.TemporaryPrefix+"*")); len(left) > 0 {
				t.Errorf("got %v left behind, want nothing", left)
			}
		})
	}
}

func TestReceiveAsksForWhatItNeeds(t *testing.T) {
	t.Parallel()
	dir := history(t, 50)
	memory := &scarce{}
	got, err := pack.Receive(t.Context(), t.TempDir(), bytes.NewReader(packed(t, dir)), memory)
	if err != nil {
		t.Fatal(err)
	}
	want := int64(got.Objects)*pack.ObjectCost + pack.WorkingSet
	if len(memory.asked) != 1 || memory.asked[0] != want || memory.held != 0 {
		t.Errorf("got %v asked for and %d still held, want %d once and nothing", memory.asked, memory.held, want)
	}
}

// handmade is a pack that git would not make.
type handmade struct {
	bytes.Buffer
	starts []int
}

func (h *handmade) add(t *testing.T, head, data []byte) {
	t.Helper()
	h.starts = append(h.starts, 12+h.Len())
	h.Write(head)
	z := zlib.NewWriter(h)
	if _, err := z.Write(data); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
}

// size is how packs begin an object.
func size(kind byte, n int) []byte {
	head := []byte{kind<<4 | byte(n&15)}
	for n >>= 4; n > 0; n >>= 7 {
		head[len(head)-1] |= 0x80
		head = append(head, byte(n&0x7f))
	}
	return head
}

// longer adds a delta that makes its base longer by some text.
func (h *handmade) longer(t *testing.T, base, baseSize int, text string) {
	t.Helper()
	delta := binary.AppendUvarint(nil, uint64(baseSize))
	delta = binary.AppendUvarint(delta, uint64(baseSize+len(text)))
	for at := 0; at < baseSize; at += 0xffffff { // copies of three bytes of size at most
		n := min(baseSize-at, 0xffffff)
		delta = append(delta, 0xff, byte(at), byte(at>>8), byte(at>>16), byte(at>>24), byte(n), byte(n>>8), byte(n>>16))
	}
	delta = append(append(delta, byte(len(text))), text...)
	back := 12 + h.Len() - h.starts[base]
	distance := []byte{byte(back & 0x7f)}
	for back >>= 7; back > 0; back >>= 7 {
		back--
		distance = append([]byte{0x80 | byte(back&0x7f)}, distance...)
	}
	h.add(t, append(size(6, len(delta)), distance...), delta)
}

func (h *handmade) pack() []byte {
	data := binary.BigEndian.AppendUint32([]byte("PACK\x00\x00\x00\x02"), uint32(len(h.starts)))
	data = append(data, h.Bytes()...)
	sum := sha1.Sum(data)
	return append(data, sum[:]...)
}

// TestLargeObjectsAreMadeAgain has more made of large objects, and of what was made of them, than
// is kept in memory.
func TestLargeObjectsAreMadeAgain(t *testing.T) {
	t.Parallel()
	const large = 12 << 20
	var h handmade
	h.add(t, size(3, large), bytes.Repeat([]byte("x"), large))
	sizes := []int{large}
	for i, base := range []int{0, 1, 2, 3, 1, 0, 2, 4, 7} { // several branches at several depths
		text := strconv.Itoa(i)
		h.longer(t, base, sizes[base], text)
		sizes = append(sizes, sizes[base]+len(text))
	}
	memory, into := &scarce{}, t.TempDir()
	got, err := pack.Receive(t.Context(), into, bytes.NewReader(h.pack()), memory)
	if err != nil {
		t.Fatal(err)
	}
	wantGitsIndex(t, into, got.Name)
	if len(memory.asked) != 2 || memory.asked[1] < memory.asked[0]+3*large || memory.held != 0 {
		t.Errorf("got %v asked for and %d still held, want three times 12 MiB more the second time and nothing", memory.asked, memory.held)
	}
}

// TestWhatADeltaClaimsIsNotBelieved receives deltas that claim to produce more bytes than they do.
// A terabyte exceeds the bound of any pack. For 256 MiB, memory has to be reserved before the delta
// is applied.
func TestWhatADeltaClaimsIsNotBelieved(t *testing.T) {
	t.Parallel()
	claim := func(n uint64) []byte {
		var h handmade
		h.add(t, size(3, 1), []byte("x"))
		delta := binary.AppendUvarint(binary.AppendUvarint(nil, 1), n)
		h.add(t, append(size(6, len(delta)+2), byte(12+h.Len()-h.starts[0])), append(delta, 1, 'y'))
		return h.pack()
	}
	memory := &scarce{}
	_, err := pack.Receive(t.Context(), t.TempDir(), bytes.NewReader(claim(1<<40)), memory)
	if _, ok := errors.AsType[*pack.LimitError](err); !ok || len(memory.asked) != 1 {
		t.Errorf("got %v with %v asked for, want a terabyte refused before it is asked for", err, memory.asked)
	}
	memory = &scarce{}
	if _, err := pack.Receive(t.Context(), t.TempDir(), bytes.NewReader(claim(1<<28)), memory); !errors.Is(err, pack.ErrMalformed) {
		t.Errorf("got %v, want %v", err, pack.ErrMalformed)
	}
	if len(memory.asked) != 2 || memory.asked[1] < 1<<28 {
		t.Errorf("got %v asked for, want the claim to be asked for, which a budget refuses", memory.asked)
	}
}

func TestMemoryRefused(t *testing.T) {
	t.Parallel()
	refused := errors.New("never")
	into := t.TempDir()
	_, err := pack.Receive(t.Context(), into, bytes.NewReader(packed(t, history(t, 2))), &scarce{err: refused})
	if !errors.Is(err, refused) {
		t.Errorf("got %v, want %v", err, refused)
	}
	wantEmpty(t, into)
}

func wantEmpty(t *testing.T, dir string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(entries) != 0 {
		t.Errorf("got %v, want an empty folder", entries)
	}
}

func TestDamagedPacksAreRefused(t *testing.T) {
	t.Parallel()
	data := packed(t, history(t, 5), "--delta-base-offset")
	flip := func(at int) []byte {
		d := bytes.Clone(data)
		d[at] ^= 0x10
		return d
	}
	for name, bad := range map[string][]byte{
		"magic": flip(0), "version": flip(7), "count": flip(11), "first object": flip(12), "middle": flip(len(data) / 2),
		"checksum": flip(len(data) - 1), "cut in the middle": data[:len(data)/2], "cut at the end": data[:len(data)-1],
		"cut at the start": data[:5], "goes on": append(bytes.Clone(data), 0),
	} {
		into := t.TempDir()
		_, err := pack.Receive(t.Context(), into, bytes.NewReader(bad), plenty{})
		if !errors.Is(err, pack.ErrMalformed) {
			t.Errorf("%s: got %v, want %v", name, err, pack.ErrMalformed)
		}
		wantEmpty(t, into)
	}
	if _, err := pack.Receive(t.Context(), t.TempDir(), bytes.NewReader(nil), plenty{}); !errors.Is(err, pack.ErrEmpty) {
		t.Errorf("got %v, want %v", err, pack.ErrEmpty)
	}
}

func TestThinPackIsRefused(t *testing.T) {
	t.Parallel()
	dir := history(t, 30)
	thin := git(t, dir, "main\n^main~3\n", "pack-objects", "--revs", "--thin", "--stdout", "--quiet")
	_, err := pack.Receive(t.Context(), t.TempDir(), strings.NewReader(thin), plenty{})
	if !errors.Is(err, pack.ErrMalformed) {
		t.Errorf("got %v, want %v", err, pack.ErrMalformed)
	}
}

func TestReceiveEndsWithTheContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancelCause(t.Context())
	data := packed(t, history(t, 50))
	gone := errors.New("gone")
	into := t.TempDir()
	body := io.MultiReader(bytes.NewReader(data[:len(data)/2]), readerFunc(func([]byte) (int, error) {
		cancel(gone)
		return 0, nil
	}), bytes.NewReader(data[len(data)/2:]))
	if _, err := pack.Receive(ctx, into, body, plenty{}); !errors.Is(err, gone) {
		t.Errorf("got %v, want %v", err, gone)
	}
	wantEmpty(t, into)
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// FuzzReceive looks for packs that take Receive down, or that it accepts and git does not.
func FuzzReceive(f *testing.F) {
	dir := history(f, 3)
	f.Add(packed(f, dir, "--delta-base-offset"))
	f.Add(packed(f, dir))
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 20 { // so that the fuzzer comes behind the checksum
			sum := sha1.Sum(data[:len(data)-20])
			copy(data[len(data)-20:], sum[:])
		}
		into := t.TempDir()
		got, err := pack.Receive(t.Context(), into, bytes.NewReader(data), plenty{})
		if err == nil {
			git(t, into, "", "index-pack", "-o", filepath.Join(into, "want.idx"), filepath.Join(into, got.Name+".pack"))
		}
	})
}
