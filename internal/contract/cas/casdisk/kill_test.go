// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package casdisk_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"testing"

	"github.com/leatdev/leat/internal/contract/bundle"
	"github.com/leatdev/leat/internal/contract/cas"
	"github.com/leatdev/leat/internal/contract/cas/casdisk"
	"github.com/leatdev/leat/internal/contract/cas/castest"
	"github.com/leatdev/leat/internal/contract/digest"
)

// fillArgument makes the test binary fill a store until it is killed. The folder and a seed follow.
const fillArgument = "fill-until-killed"

func TestMain(m *testing.M) {
	if len(os.Args) == 4 && os.Args[1] == fillArgument {
		if err := fillUntilKilled(os.Args[2], os.Args[3]); err != nil {
			_, _ = io.WriteString(os.Stderr, err.Error())
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

const (
	// fills is how many blobs are put at once.
	fills = 1000
	// roomForFills is more than all of them take while they are written, and less than the blobs of
	// three rounds.
	roomForFills = 48 << 20
)

// fillUntilKilled puts a thousand blobs at once. It writes a byte for each operation on the disk.
func fillUntilKilled(dir, seed string) error {
	number, err := strconv.ParseUint(seed, 10, 64)
	if err != nil {
		return err
	}
	store, err := casdisk.Open(casdisk.Config{Dir: dir, MaxBytes: roomForFills, Hooks: casdisk.Hooks{
		Fault: func(casdisk.Op, string) error {
			_, _ = os.Stdout.Write([]byte{'.'})
			return nil
		},
	}})
	if err != nil {
		return err
	}
	random := rand.New(rand.NewPCG(number, 0))
	var compressor bundle.Compressor
	var group sync.WaitGroup
	begin := make(chan struct{})
	for n := range fills {
		content := castest.Noise(random.Uint64(), 1+random.IntN(40<<10))
		var stored bytes.Buffer
		w, err := compressor.Compress(&stored)
		if err != nil {
			return err
		}
		_, err = w.Write(content)
		if err := errors.Join(err, w.Close()); err != nil {
			return err
		}
		group.Go(func() {
			<-begin
			if _, err := store.Put(context.Background(), digest.FromBytes(content), &stored); err != nil {
				_, _ = fmt.Fprintln(os.Stderr, n, err)
			}
		})
	}
	close(begin)
	group.Wait()
	return nil
}

// TestKilledWhileFilling repeatedly kills a process with SIGKILL while it puts a thousand blobs, at
// any of its operations on the disk. The next process must find whole blobs and nothing else. (Only
// the process dies here. The syncs are for a machine that loses its power.)
func TestKilledWhileFilling(t *testing.T) {
	t.Parallel()
	rounds := 3
	if os.Getenv("LEAT_FAULT_LONG") != "" {
		rounds = 100
	}
	dir, cut := t.TempDir(), 0
	for round := range rounds {
		killAfter(t, dir, uint64(round), 1+rand.IntN(12*fills)) // a put takes a dozen operations
		cut += len(files(t, filepath.Join(dir, "tmp")))
		opensClean(t, dir)
	}
	t.Logf("%d rounds cut %d blobs off while they were written", rounds, cut)
	if cut == 0 {
		t.Error("got no blob that was cut off, want the process to have died in the midst of some")
	}
}

// killAfter has a process fill the store in dir, and kills it at its nth operation on the disk, if
// it gets that far.
func killAfter(t *testing.T, dir string, seed uint64, n int) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], fillArgument, dir, strconv.FormatUint(seed, 10))
	var complaints bytes.Buffer
	cmd.Stderr = &complaints
	progress, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_, failed := io.CopyN(io.Discard, progress, int64(n))
	_ = cmd.Process.Kill()
	_ = cmd.Wait() // the error only reports that it was killed
	if (failed != nil && !errors.Is(failed, io.EOF)) || complaints.Len() > 0 {
		t.Fatalf("the process that fills: got %v and %.500q, want it killed after %d operations", failed, complaints.String(), n)
	}
}

// opensClean opens the store in dir, and every blob in it.
func opensClean(t *testing.T, dir string) {
	t.Helper()
	store := open(t, casdisk.Config{Dir: dir, MaxBytes: roomForFills, Hooks: casdisk.Hooks{
		Corrupt: func(d digest.Digest, err error) { t.Errorf("blob %s: got %v, want it whole", d, err) },
	}})
	defer store.Close()
	if left := files(t, filepath.Join(dir, "tmp")); len(left) != 0 {
		t.Errorf("temporary files: got %v, want none", left)
	}
	var want cas.Usage
	for _, path := range files(t, filepath.Join(dir, "blobs")) {
		d, err := digest.Parse("sha256:" + filepath.Base(path)[:64])
		if err != nil {
			t.Fatal(err)
		}
		want.Bytes += readAll(t, store, d)
		want.Blobs++
	}
	got, err := store.Usage(t.Context())
	if err != nil || got.Blobs != want.Blobs || got.Bytes != want.Bytes || got.Bytes > got.MaxBytes {
		t.Errorf("usage: got %+v, %v, want the %d bytes of %d files", got, err, want.Bytes, want.Blobs)
	}
}

// readAll verifies a blob, and returns its stored size.
func readAll(t *testing.T, store cas.Store, d digest.Digest) int64 {
	t.Helper()
	blob, err := store.Open(t.Context(), d)
	if err != nil {
		t.Errorf("open: %v", err)
		return 0
	}
	defer blob.Close()
	info, err := cas.Check(t.Context(), io.Discard, blob, d, cas.DefaultMaxContentBytes)
	if err != nil || info != blob.Info {
		t.Errorf("blob: got %+v, %v, want %+v", info, err, blob.Info)
	}
	return info.StoredSize
}
