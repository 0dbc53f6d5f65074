// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package pack_test

import (
	"bytes"
	"crypto/sha1"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/leatdev/leat/internal/testkit/gittest"
	"github.com/leatdev/leat/services/gitcache/internal/pack"
)

// chains makes a repository with two packs, long chains of deltas, files of every length around
// what a window and the cache hold, and an annotated tag.
func chains(t *testing.T, format string) *gittest.Repo {
	t.Helper()
	repo := gittest.New(t).Repo(t, "demo")
	if err := errors.Join(os.RemoveAll(repo.Dir()), os.Mkdir(repo.Dir(), 0o700)); err != nil {
		t.Fatal(err)
	}
	repo.Git(t, "init", "--quiet", "--bare", "--object-format="+format, "--initial-branch=main", repo.Dir())
	for n := range 10 {
		files := map[string]string{
			"long.txt":  strings.Repeat("a line that stays\n", 2000) + fmt.Sprintf("version %d\n", n),
			"empty.txt": "",
		}
		if n == 0 {
			for i := range 300 {
				files[fmt.Sprintf("many/%03d.yaml", i)] = strings.Repeat(fmt.Sprintf("key-%d: %d\n", i%7, i), i)
			}
			files["large.bin"] = random(1_500_000)
			files["larger.bin"] = random(2 << 20)
		}
		commit := repo.Commit(t, "main", files)
		if n == 5 {
			repo.AnnotatedTag(t, "v1", commit)
			repo.Git(t, "repack", "-a", "-d", "-q", "-f", "--depth=200", "--window=30")
		}
	}
	repo.Git(t, "repack", "-d", "-q")
	return repo
}

// random is text that does not compress.
func random(size int) string {
	var b strings.Builder
	x := uint64(1)
	for b.Len() < size {
		x = x*6364136223846793005 + 1442695040888963407
		b.WriteString(strconv.FormatUint(x, 36))
	}
	return b.String()[:size]
}

func hashObject(sum hash.Hash, kind string, data []byte) string {
	sum.Reset()
	fmt.Fprintf(sum, "%s %d\x00%s", kind, len(data), data)
	return fmt.Sprintf("%x", sum.Sum(nil))
}

func open(t *testing.T, dir string) *pack.Reader {
	t.Helper()
	r, err := pack.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	return r
}

// TestReadsWhatGitReads compares every object of the packs with git's answer, in the order of ids,
// which jumps about in the packs, and then backwards.
func TestReadsWhatGitReads(t *testing.T) {
	t.Parallel()
	for format, hash := range map[string]hash.Hash{"sha1": sha1.New(), "sha256": sha256.New()} {
		t.Run(format, func(t *testing.T) {
			t.Parallel()
			readsWhatGitReads(t, format, hash)
		})
	}
}

func readsWhatGitReads(t *testing.T, format string, sum hash.Hash) {
	t.Helper()
	repo := chains(t, format)
	if got := repo.Git(t, "count-objects", "-v"); !strings.Contains(got, "\npacks: 2\n") || !strings.HasPrefix(got, "count: 0\n") {
		t.Fatalf("got %q, want two packs and nothing else", got)
	}
	objects := strings.Split(repo.Git(t, "cat-file", "--batch-all-objects", "--batch-check"), "\n")
	r := open(t, repo.Dir())
	check := func(line string) {
		fields := strings.Fields(line)
		got, err := r.Read(fields[0], 1<<30)
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		hash := hashObject(sum, fields[1], got.Data)
		if kind, err := r.Kind(fields[0]); kind != fields[1] || err != nil {
			t.Fatalf("got kind %q (%v), want %s", kind, err, line)
		}
		if got.Kind != fields[1] || strconv.Itoa(len(got.Data)) != fields[2] || hash != fields[0] {
			t.Fatalf("got a %s with %d bytes and id %s, want %s", got.Kind, len(got.Data), hash, line)
		}
	}
	for _, line := range objects {
		check(line)
	}
	for i := range objects {
		check(objects[len(objects)-1-i])
	}
	for _, id := range []string{strings.Repeat("0", 40), strings.Repeat("0", 64), objects[0][:20], "", "HEAD"} {
		if _, err := r.Read(id, 1<<30); !errors.Is(err, pack.ErrNotFound) {
			t.Errorf("got %v for object %q, which is not there, want ErrNotFound", err, id)
		}
		if kind, err := r.Kind(id); kind != "" || err != nil {
			t.Errorf("got kind %q (%v) of object %q, which is not there", kind, err, id)
		}
	}
	for _, prefix := range []string{"", "a", "0b", objects[0][:7], objects[0][:sum.Size()*2], "fffffff"} {
		var want []string
		for _, line := range objects {
			if id, _, _ := strings.Cut(line, " "); strings.HasPrefix(id, prefix) {
				want = append(want, id)
			}
		}
		if got := r.Prefixed(prefix); !slices.Equal(got, want) {
			t.Errorf("got %d names that begin with %q, want %d", len(got), prefix, len(want))
		}
	}
}

func TestBoundsWhatItReads(t *testing.T) {
	t.Parallel()
	repo := chains(t, "sha1")
	r := open(t, repo.Dir())
	for _, name := range []string{"larger.bin", "long.txt", "many/299.yaml"} {
		blob := repo.Git(t, "rev-parse", "main:"+name)
		size, err := strconv.ParseInt(repo.Git(t, "cat-file", "-s", blob), 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := r.Read(blob, size-1); !errors.Is(err, pack.ErrTooLarge) {
			t.Errorf("%s: got %v for one byte less than it has, want ErrTooLarge", name, err)
		}
		if _, err := r.Read(blob, size); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := r.Read(blob, size-1); !errors.Is(err, pack.ErrTooLarge) {
			t.Errorf("%s, known: got %v for one byte less than it has, want ErrTooLarge", name, err)
		}
	}
}

// TestDamage turns over single bytes all over a small pack: whatever that does, no object comes
// back otherwise than it is.
func TestDamage(t *testing.T) {
	t.Parallel()
	repo := gittest.New(t).Repo(t, "demo")
	for n := range 4 {
		repo.Commit(t, "main", map[string]string{"a.txt": strings.Repeat("a line\n", 30) + strconv.Itoa(n), "b.txt": random(100 + n)})
	}
	repo.Git(t, "repack", "-a", "-d", "-q", "-f")
	found, err := filepath.Glob(filepath.Join(repo.Dir(), "objects", "pack", "*.pack"))
	if err != nil || len(found) != 1 {
		t.Fatalf("got packs %v (%v), want one", found, err)
	}
	whole, err := os.ReadFile(found[0])
	if err != nil {
		t.Fatal(err)
	}
	index, err := os.ReadFile(strings.TrimSuffix(found[0], ".pack") + ".idx")
	if err != nil {
		t.Fatal(err)
	}
	objects := strings.Split(repo.Git(t, "cat-file", "--batch-all-objects", "--batch-check"), "\n")
	broken := 0
	for at := 12; at < len(whole)-20; at += 11 {
		dir := filepath.Join(t.TempDir(), "objects", "pack")
		damaged := bytes.Clone(whole)
		damaged[at] ^= 1 << (at % 8)
		write(t, filepath.Join(dir, "pack-1.pack"), damaged)
		write(t, filepath.Join(dir, "pack-1.idx"), index)
		r := open(t, filepath.Dir(filepath.Dir(dir)))
		for _, line := range objects {
			fields := strings.Fields(line)
			got, err := r.Read(fields[0], 1<<20)
			if err != nil {
				broken++
				continue
			}
			if hash := hashObject(sha1.New(), fields[1], got.Data); hash != fields[0] {
				t.Fatalf("byte %d: got an object with id %s, want %s or an error", at, hash, line)
			}
		}
	}
	if broken == 0 {
		t.Error("got no error for any damage, want some")
	}
}

func write(t *testing.T, path string, data []byte) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}
