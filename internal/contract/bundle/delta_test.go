// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package bundle_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"pgregory.net/rapid"

	"github.com/leatdev/leat/internal/contract/bundle"
	"github.com/leatdev/leat/internal/contract/digest"
)

// tarOf returns a tar with its right digest.
func tarOf(content []byte) bundle.Tar {
	return bundle.Tar{Digest: digest.FromBytes(content), Content: bytes.NewReader(content)}
}

func delta(t testing.TB, from, to []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	if err := bundle.WriteDelta(&out, tarOf(from), tarOf(to), bundle.Limits{}); err != nil {
		t.Fatalf("write delta: %v", err)
	}
	return out.Bytes()
}

func apply(from []byte, to digest.Digest, delta []byte) ([]byte, error) {
	var out bytes.Buffer
	err := bundle.ApplyDelta(&out, tarOf(from), to, bytes.NewReader(delta), bundle.Limits{})
	return out.Bytes(), err
}

// noise returns n incompressible bytes.
func noise(seed uint64, n int) string {
	random := rand.NewChaCha8([32]byte{byte(seed), byte(seed >> 8)})
	content := make([]byte, n)
	_, _ = random.Read(content)
	return string(content)
}

func TestDelta(t *testing.T) {
	t.Parallel()
	big, huge := noise(1, 1<<20), noise(2, 5<<20)
	edit := func(s string, at int) string { return s[:at] + noise(3, 1024) + s[at+1024:] }
	twice := func(s string) string { return edit(edit(s, 10_000), len(s)-20_000) }
	for _, test := range []struct {
		name     string
		from, to []item
		most     int // bytes of the delta, compressed
	}{
		{"empty", nil, nil, 100},
		{"equal", []item{{name: "a", content: big}, {name: "b", content: huge}, {name: "l", target: "a"}}, []item{{name: "a", content: big}, {name: "b", content: huge}, {name: "l", target: "a"}}, 100},
		{"from nothing", nil, []item{{name: "a", content: "1"}, {name: "l", target: "a"}}, 120},
		{"to nothing", []item{{name: "a", content: big}, {name: "l", target: "a"}}, nil, 100},
		{"mode", []item{{name: "a", content: big}, {name: "b", content: huge}}, []item{{name: "a", content: big, exec: true}, {name: "b", content: huge, exec: true}}, 120},
		{"rename", []item{{name: "a", content: "content"}}, []item{{name: "b", content: "content"}}, 120},
		{"file to link", []item{{name: "a", content: big}}, []item{{name: "a", target: "b"}}, 120},
		{"link to file", []item{{name: "a", target: "b"}}, []item{{name: "a", content: "b"}}, 120},
		{"link moves", []item{{name: "a", target: "b"}}, []item{{name: "a", target: "c"}}, 120},
		{"file to folder", []item{{name: "a"}, {name: "a.b"}}, []item{{name: "a.b"}, {name: "a/b"}}, 120},
		{"one place", []item{{name: "a", content: big}}, []item{{name: "a", content: edit(big, 1000)}}, 1300},
		{"two places", []item{{name: "a", content: big}}, []item{{name: "a", content: twice(big)}}, 3 << 10},
		{"shifted", []item{{name: "a", content: big}}, []item{{name: "a", content: "x" + edit(big, 1000) + "y"}}, 3 << 10},
		{"reordered", []item{{name: "a", content: big}}, []item{{name: "a", content: big[1<<19:] + big[:1<<19]}}, 3 << 10},
		{"grown past the dictionary", []item{{name: "a", content: big}}, []item{{name: "a", content: big + huge}}, 5<<20 + 2<<10},
		{"huge shrinks", []item{{name: "a", content: huge}}, []item{{name: "a", content: huge[:5<<20-7]}}, 120},
		{"huge grows", []item{{name: "a", content: huge}}, []item{{name: "a", content: huge + "more"}}, 120},
		{"huge end changes", []item{{name: "a", content: huge}}, []item{{name: "a", content: huge[:5<<20-2000] + "more"}}, 120},
		{"empty file grows", []item{{name: "a"}}, []item{{name: "a", content: big}}, 1<<20 + 200},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			from, to := write(t, test.from...), write(t, test.to...)
			d := delta(t, from, to)
			got, err := apply(from, digest.FromBytes(to), d)
			if err != nil || !bytes.Equal(got, to) {
				t.Errorf("applied: got %d bytes, %v, want the %d of the other bundle", len(got), err, len(to))
			}
			if size := len(compress(t, d)); size > test.most {
				t.Errorf("delta: got %d bytes, want at most %d", size, test.most)
			}
		})
	}
}

// TestDeltaLeadsFromAnyFolderToAnyOther checks the promise of the format. In half of the cases the
// second folder is derived from the first.
func TestDeltaLeadsFromAnyFolderToAnyOther(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		from := folder().Draw(rt, "from")
		to := folder().Draw(rt, "to")
		for i, old := range from {
			if fate := rapid.IntRange(0, 5).Draw(rt, "fate"); fate > 0 {
				to = append([]item{change(rt, old, i, fate)}, to...)
			}
		}
		a, b := write(t, sorted(from)...), write(t, sorted(withoutConflicts(to))...)
		got, err := apply(a, digest.FromBytes(b), delta(t, a, b))
		if err != nil || !bytes.Equal(got, b) {
			rt.Fatalf("applied: got %d bytes, %v, want the other bundle's %d", len(got), err, len(b))
		}
	})
}

// change returns what becomes of a file.
func change(t *rapid.T, old item, seed, fate int) item {
	switch fate {
	case 1:
		old.name += "~"
	case 2:
		old.exec = !old.exec && old.target == ""
	case 3:
		if old.target == "" {
			at := rapid.IntRange(0, len(old.content)).Draw(t, "at")
			old.content = old.content[:at] + noise(uint64(seed), rapid.SampledFrom([]int{1, 100, 5000, 70_000}).Draw(t, "piece")) + old.content[at:]
		}
	}
	return old
}

func TestWrongBase(t *testing.T) {
	t.Parallel()
	from, to := write(t, item{name: "a", content: "one"}, item{name: "b"}), write(t, item{name: "a", content: "two"}, item{name: "b"})
	d, want := delta(t, from, to), digest.FromBytes(to)
	flipped := bytes.Clone(from)
	flipped[512] ^= 1
	for name, base := range map[string]bundle.Tar{
		"another":    tarOf(to),
		"damaged":    {Digest: digest.FromBytes(from), Content: bytes.NewReader(flipped)},
		"cut":        {Digest: digest.FromBytes(from), Content: bytes.NewReader(from[:700])},
		"swapped":    {Digest: digest.FromBytes(from), Content: bytes.NewReader(to)},
		"unreadable": {Digest: digest.FromBytes(from), Content: iotest.ErrReader(io.ErrClosedPipe)},
		"no tar":     {Digest: digest.FromBytes(from), Content: strings.NewReader("no tar")},
	} {
		if err := bundle.ApplyDelta(io.Discard, base, want, bytes.NewReader(d), bundle.Limits{}); !errors.Is(err, bundle.ErrWrongBase) {
			t.Errorf("%s: got %v, want ErrWrongBase", name, err)
		}
	}
	if _, err := apply(from, digest.FromBytes([]byte("else")), d); !errors.Is(err, bundle.ErrMalformed) {
		t.Errorf("delta to another bundle: got %v, want ErrMalformed", err)
	}
}

func TestDeltaOfDamagedBundles(t *testing.T) {
	t.Parallel()
	good := write(t, item{name: "a", content: "one"})
	flipped := bytes.Clone(good)
	flipped[512] ^= 1
	bad := bundle.Tar{Digest: digest.FromBytes(good)}
	for _, swap := range []bool{false, true} {
		bad.Content = bytes.NewReader(flipped)
		from, to := bad, tarOf(good)
		if swap {
			from, to = to, from
		}
		if err := bundle.WriteDelta(io.Discard, from, to, bundle.Limits{}); !errors.Is(err, digest.ErrMismatch) {
			t.Errorf("damaged bundle (swapped: %t): got %v, want ErrMismatch", swap, err)
		}
	}
}

// script returns a delta made by hand.
func script(from, to []byte, instructions string) []byte {
	head := append([]byte("leat delta 1\n"), digest.FromBytes(from).Bytes()...)
	return append(append(head, digest.FromBytes(to).Bytes()...), instructions...)
}

func TestHostileDelta(t *testing.T) {
	t.Parallel()
	from := write(t, item{name: "a", content: "0123456789"}, item{name: "l", target: "a"})
	to := write(t, item{name: "a", content: "0123456789"})
	frame := string(compress(t, []byte("0123456789")))
	bomb := string(compress(t, make([]byte, 1<<20)))
	for name, test := range map[string]struct {
		instructions string
		want         error
	}{
		"good":                      {"k\x01d\x01e", nil},
		"no end":                    {"k\x01d\x01", bundle.ErrMalformed},
		"early end":                 {"k\x01e", bundle.ErrMalformed},
		"bytes after the end":       {"k\x01d\x01ee", bundle.ErrMalformed},
		"keep nothing":              {"k\x00k\x01d\x01e", bundle.ErrMalformed},
		"longer number":             {"k\x81\x00d\x01e", bundle.ErrMalformed},
		"endless number":            {"k\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", bundle.ErrMalformed},
		"past the base":             {"k\x01d\x01d\x01e", bundle.ErrMalformed},
		"keep without end":          {"k\xff\xff\xff\xff\xff\xff\x7f", bundle.ErrMalformed},
		"unknown instruction":       {"z", bundle.ErrMalformed},
		"unknown kind":              {"az", bundle.ErrMalformed},
		"other content":             {"k\x02e", digest.ErrMismatch},
		"wrong order":               {"k\x02af\x01b\x00e", bundle.ErrMalformed},
		"twice":                     {"k\x01af\x01a\x00d\x01e", bundle.ErrMalformed},
		"climbing name":             {"af\x04../b\x00", bundle.ErrMalformed},
		"absolute name":             {"af\x02/b\x00", bundle.ErrMalformed},
		"empty name":                {"af\x00\x00", bundle.ErrMalformed},
		"endless name":              {"af\xff\x7f", bundle.ErrTooLarge},
		"climbing link":             {"al\x01b\x04../b", bundle.ErrMalformed},
		"empty target":              {"al\x01b\x00", bundle.ErrMalformed},
		"below a file":              {"k\x01af\x03a/b\x00d\x01e", bundle.ErrMalformed},
		"huge file":                 {"d\x02af\x01b\xff\xff\xff\xff\x0f", bundle.ErrTooLarge},
		"cut content":               {"d\x02af\x01b\x05abc", bundle.ErrMalformed},
		"splice too much":           {"sf\x06\x00\x05d\x01e", bundle.ErrMalformed},
		"splice overflow":           {"sf\xff\xff\xff\xff\xff\xff\xff\x7f\x00\x01", bundle.ErrMalformed},
		"splice huge":               {"sf\x00\xff\xff\xff\xff\xff\xff\xff\x7f\x00", bundle.ErrTooLarge},
		"splice a link":             {"k\x01sf\x00\x00\x00e", bundle.ErrMalformed},
		"splice into a link":        {"sl\x00\x00\x00d\x01e", bundle.ErrMalformed},
		"patch too large":           {"pf\xff\xff\xff\x0f\x00", bundle.ErrMalformed},
		"patch longer than told":    {"pf\x0a\x0b", bundle.ErrMalformed},
		"patch without a frame":     {"pf\x0a\x00d\x01e", bundle.ErrMalformed},
		"patch that is not a frame": {"pf\x0a\x04abcd", bundle.ErrMalformed},
		"patch that is too short":   {"pf\x7f" + string(rune(len(frame))) + frame + "d\x01e", bundle.ErrMalformed},
		"patch that is a bomb":      {"pf\x7f" + string(rune(len(bomb))) + bomb + "d\x01e", bundle.ErrMalformed},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := apply(from, digest.FromBytes(to), script(from, to, test.instructions))
			if !errors.Is(err, test.want) || errors.Is(err, bundle.ErrWrongBase) {
				t.Errorf("got %v, want %v and no blame on the base", err, test.want)
			}
			if test.want == nil && !bytes.Equal(got, to) {
				t.Errorf("got %d bytes, want the bundle's %d", len(got), len(to))
			}
		})
	}
}

func TestDeltaObeysLimits(t *testing.T) {
	t.Parallel()
	from, to := write(t), write(t, item{name: "a", content: strings.Repeat("x", 5000)}, item{name: "b"})
	d := delta(t, from, to)
	for _, limits := range []bundle.Limits{{Files: 1}, {FileBytes: 4999}, {Bytes: int64(len(to)) - 1}} {
		err := bundle.ApplyDelta(io.Discard, tarOf(from), digest.FromBytes(to), bytes.NewReader(d), limits)
		if !errors.Is(err, bundle.ErrTooLarge) {
			t.Errorf("limits %+v: got %v, want ErrTooLarge", limits, err)
		}
		err = bundle.WriteDelta(io.Discard, tarOf(from), tarOf(to), limits)
		if !errors.Is(err, bundle.ErrTooLarge) {
			t.Errorf("write within %+v: got %v, want ErrTooLarge", limits, err)
		}
	}
}

// TestDeltaOfCutReaders makes every reader fail after each number of bytes: the failure must be
// returned, and no wrong tar may pass as the right one.
func TestDeltaOfCutReaders(t *testing.T) {
	t.Parallel()
	content := noise(1, 6000)
	from := write(t, item{name: "a", content: content}, item{name: "b"}, item{name: "c", content: "old"})
	to := write(t, item{name: "a", content: content[3000:] + content[:3000]}, item{name: "c", content: "new"}, item{name: "d"})
	d := delta(t, from, to)
	if len(d) > 300 {
		t.Fatalf("delta: got %d bytes, want the file to be patched", len(d))
	}
	for n := range d {
		_, err := apply(from, digest.FromBytes(to), d[:n])
		if !errors.Is(err, bundle.ErrMalformed) {
			t.Fatalf("delta cut after %d bytes: got %v, want ErrMalformed", n, err)
		}
		broken := io.MultiReader(bytes.NewReader(d[:n]), iotest.ErrReader(io.ErrClosedPipe))
		err = bundle.ApplyDelta(io.Discard, tarOf(from), digest.FromBytes(to), broken, bundle.Limits{})
		if !errors.Is(err, io.ErrClosedPipe) || errors.Is(err, bundle.ErrMalformed) || errors.Is(err, bundle.ErrWrongBase) {
			t.Fatalf("delta unreadable after %d bytes: got %v, want the reader's error", n, err)
		}
		flipped := bytes.Clone(d)
		flipped[n] ^= 0x10
		if got, err := apply(from, digest.FromBytes(to), flipped); err == nil && !bytes.Equal(got, to) {
			t.Fatalf("bit flipped in byte %d: got a wrong tar and no error", n)
		}
	}
}

// FuzzApplyDelta looks for panics, for errors without a type, and for a tar that is not canonical.
func FuzzApplyDelta(f *testing.F) {
	content := strings.Repeat(noise(1, 1000), 10)
	from := write(f, item{name: "a", content: content}, item{name: "b", exec: true}, item{name: "l", target: "a"})
	head := len(script(from, nil, ""))
	for _, to := range [][]item{
		nil,
		{{name: "a", content: content, exec: true}, {name: "l", target: "b"}},
		{{name: "a", content: noise(2, 5000) + content}, {name: "z", content: "new"}},
	} {
		f.Add(delta(f, from, write(f, to...))[head:])
	}
	limits := bundle.Limits{Bytes: 1 << 20, Files: 100, FileBytes: 1 << 16}
	f.Fuzz(func(t *testing.T, instructions []byte) {
		var out bytes.Buffer
		err := bundle.ApplyDelta(&out, tarOf(from), digest.FromBytes(nil), bytes.NewReader(script(from, nil, string(instructions))), limits)
		if int64(out.Len()) > limits.Bytes {
			t.Fatalf("wrote %d bytes, want at most %d", out.Len(), limits.Bytes)
		}
		switch {
		case errors.Is(err, digest.ErrMismatch): // only this error is found after the last byte
			if _, err := read(&out, limits); err != nil {
				t.Fatalf("wrote a tar that is not canonical: %v", err)
			}
		case errors.Is(err, bundle.ErrMalformed), errors.Is(err, bundle.ErrTooLarge):
		default:
			t.Fatalf("got %v, want a typed error", err)
		}
	})
}

// BenchmarkDelta changes one of many files in a folder.
func BenchmarkDelta(b *testing.B) {
	items := manifests()
	from := write(b, items...)
	changed := slices.Clone(items)
	changed[2000].content = strings.Repeat("changed: true\n", 80)
	to := write(b, changed...)
	d := delta(b, from, to)
	b.Run("write", func(b *testing.B) {
		b.SetBytes(int64(len(to)))
		b.ReportAllocs()
		for b.Loop() {
			if err := bundle.WriteDelta(io.Discard, tarOf(from), tarOf(to), bundle.Limits{}); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("apply", func(b *testing.B) {
		b.SetBytes(int64(len(to)))
		b.ReportAllocs()
		for b.Loop() {
			if err := bundle.ApplyDelta(io.Discard, tarOf(from), digest.FromBytes(to), bytes.NewReader(d), bundle.Limits{}); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// TestDeltaTakesLittleMemory makes and applies a delta between bundles of 31 MiB, which are never
// held in memory. The total of all allocations bounds the memory in use at once.
func TestDeltaTakesLittleMemory(t *testing.T) {
	block := noise(1, 4<<20)
	stream := func(changed string) io.Reader {
		r, w := io.Pipe()
		go func() {
			writer := bundle.NewWriter(w, bundle.Limits{})
			for n := range 13 {
				content := io.MultiReader(strings.NewReader(block), strings.NewReader(changed))
				size := int64(len(block) + len(changed))
				if n%2 == 0 { // small enough for a dictionary
					size, content = 1<<20, io.MultiReader(strings.NewReader(changed), strings.NewReader(block))
				}
				if err := writer.WriteFile(fmt.Sprintf("%02d", n), false, size, content); err != nil {
					w.CloseWithError(err)
					return
				}
			}
			w.CloseWithError(writer.Close())
		}()
		return r
	}
	sum := func(changed string) digest.Digest {
		hasher := digest.NewHasher()
		if _, err := io.Copy(hasher, stream(changed)); err != nil {
			t.Fatal(err)
		}
		return hasher.Digest()
	}
	one, two := "one"+noise(2, 3000), "two"+noise(3, 3000)+block[100_000:102_000]
	from, to := sum(one), sum(two)
	base := func() bundle.Tar { return bundle.Tar{Digest: from, Content: stream(one)} }

	var before, between, after runtime.MemStats
	var d bytes.Buffer
	runtime.ReadMemStats(&before)
	if err := bundle.WriteDelta(&d, base(), bundle.Tar{Digest: to, Content: stream(two)}, bundle.Limits{}); err != nil {
		t.Fatal(err)
	}
	runtime.ReadMemStats(&between)
	if err := bundle.ApplyDelta(io.Discard, base(), to, bytes.NewReader(d.Bytes()), bundle.Limits{}); err != nil {
		t.Fatal(err)
	}
	runtime.ReadMemStats(&after)
	const most = 40 << 20
	if got := between.TotalAlloc - before.TotalAlloc; got > most {
		t.Errorf("write: allocated %d MiB, want at most %d", got>>20, most>>20)
	}
	if got := after.TotalAlloc - between.TotalAlloc; got > most {
		t.Errorf("apply: allocated %d MiB, want at most %d", got>>20, most>>20)
	}
	t.Logf("delta of %d bytes; allocated to write it %d MiB, to apply it %d MiB",
		d.Len(), (between.TotalAlloc-before.TotalAlloc)>>20, (after.TotalAlloc-between.TotalAlloc)>>20)
}
