// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package pack_test

import (
	"bytes"
	"crypto/sha1"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/leatdev/leat/internal/testkit/gittest"
	"github.com/leatdev/leat/services/gitcache/internal/pack"
)

// chains makes a repository with two packs, long chains of deltas, files of every length around what a window and the cache
// hold, and an annotated tag.
func chains(t *testing.T) *gittest.Repo {
	t.Helper()
	repo := gittest.New(t).Repo(t, "demo")
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

func hashObject(kind string, data []byte) string {
	return fmt.Sprintf("%x", sha1.Sum(fmt.Appendf(nil, "%s %d\x00%s", kind, len(data), data)))
}

func parseID(t *testing.T, digits string) pack.ID {
	t.Helper()
	var id pack.ID
	if n, err := hex.Decode(id[:], []byte(digits)); err != nil || n != len(id) {
		t.Fatalf("id %q: %v", digits, err)
	}
	return id
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

// TestReadsWhatGitReads compares every object of the packs with what git says of it, in the order of ids, which jumps
// about in the packs, and then backwards.
func TestReadsWhatGitReads(t *testing.T) {
	t.Parallel()
	repo := chains(t)
	if got := repo.Git(t, "count-objects", "-v"); !strings.Contains(got, "\npacks: 2\n") || !strings.HasPrefix(got, "count: 0\n") {
		t.Fatalf("got %q, want two packs and nothing else", got)
	}
	objects := strings.Split(repo.Git(t, "cat-file", "--batch-all-objects", "--batch-check"), "\n")
	r := open(t, repo.Dir())
	check := func(line string) {
		fields := strings.Fields(line)
		got, err := r.Read(parseID(t, fields[0]), 1<<30)
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		hash := hashObject(fields[1], got.Data)
		if got.Kind() != fields[1] || strconv.Itoa(len(got.Data)) != fields[2] || hash != fields[0] {
			t.Fatalf("got a %s with %d bytes and id %s, want %s", got.Kind(), len(got.Data), hash, line)
		}
	}
	for _, line := range objects {
		check(line)
	}
	for i := range objects {
		check(objects[len(objects)-1-i])
	}
	if _, err := r.Read(parseID(t, strings.Repeat("0", 40)), 1<<30); !errors.Is(err, pack.ErrNotFound) {
		t.Errorf("got %v for an object that is not there, want ErrNotFound", err)
	}
}

func TestBoundsWhatItReads(t *testing.T) {
	t.Parallel()
	repo := chains(t)
	r := open(t, repo.Dir())
	for _, name := range []string{"larger.bin", "long.txt", "many/299.yaml"} {
		blob := parseID(t, repo.Git(t, "rev-parse", "main:"+name))
		size, err := strconv.ParseInt(repo.Git(t, "cat-file", "-s", blob.String()), 10, 64)
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

// TestDamage turns over single bytes all over a small pack: whatever that does, no object comes back otherwise than it is.
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
			got, err := r.Read(parseID(t, fields[0]), 1<<20)
			if err != nil {
				broken++
				continue
			}
			if hash := hashObject(fields[1], got.Data); hash != fields[0] {
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
