// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package bundlehttp

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"strconv"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"connectrpc.com/connect"
	"github.com/klauspost/compress/zstd"

	"github.com/leatdev/leat/internal/contract/cas"
	"github.com/leatdev/leat/internal/contract/digest"
)

// TestSecEncodersAreFew takes the encoders that one cluster may have, and the replica's. A further
// request of the cluster is refused at once, and one of another cluster at the end of its time.
func TestSecEncodersAreFew(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := newEncoder()
		var last func()
		for i := range encoders {
			cluster := strconv.Itoa(i)
			done, err := e.acquire(t.Context(), cluster)
			if err != nil {
				t.Fatal(err)
			}
			begun := time.Now()
			if _, err := e.acquire(t.Context(), cluster); connect.CodeOf(err) != connect.CodeUnavailable || time.Since(begun) != 0 {
				t.Errorf("got %v after %s, want a refusal at once: the cluster has its encoder", err, time.Since(begun))
			}
			last = done
		}
		begun := time.Now()
		if _, err := e.acquire(t.Context(), "another"); connect.CodeOf(err) != connect.CodeUnavailable || time.Since(begun) != encoderWait {
			t.Errorf("got %v after %s, want a refusal after %s", err, time.Since(begun), encoderWait)
		}
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := e.acquire(gone, "another"); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v for a caller that has gone", err)
		}
		time.AfterFunc(encoderWait/2, last)
		done, err := e.acquire(t.Context(), "another")
		if err != nil {
			t.Fatalf("got %v, want the encoder that became free", err)
		}
		done()
		if done, err = e.acquire(t.Context(), "another"); err != nil {
			t.Fatalf("got %v, want an encoder for the cluster that gave its own back", err)
		}
		done()
	})
}

// blobOf returns a blob of stored bytes that claims a digest and a size.
func blobOf(packed []byte, d digest.Digest, size int) *cas.Blob {
	return &cas.Blob{
		Info:           cas.Info{Digest: d, ContentSize: int64(size), StoredSize: int64(len(packed))},
		ReadSeekCloser: nopCloser{bytes.NewReader(packed)},
	}
}

func pack(t *testing.T, content []byte) []byte {
	t.Helper()
	z, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	return z.EncodeAll(content, nil)
}

// TestTarIsReadFromAnyByte reads contents of sizes around the bytes that are held back, from any place, forwards and
// backwards.
func TestTarIsReadFromAnyByte(t *testing.T) {
	t.Parallel()
	for _, size := range []int{0, 1, aheadBytes - 1, aheadBytes, aheadBytes + 1, 2 * aheadBytes, 3*aheadBytes + 7} {
		content := make([]byte, size)
		for i := range content {
			content[i] = byte(i * i >> 3)
		}
		f := &tarFile{blob: blobOf(pack(t, content), digest.FromBytes(content), size)}
		for _, from := range []int{0, size / 2, size, size / 3, max(size-1, 0), 0} {
			if at, err := f.Seek(int64(from-size), io.SeekEnd); err != nil || at != int64(from) {
				t.Fatalf("got %d, %v, want %d", at, err, from)
			}
			got, err := io.ReadAll(iotest.HalfReader(f))
			if err != nil || !bytes.Equal(got, content[from:]) || f.failure() != nil {
				t.Errorf("%d bytes from %d: got %d, %v, %v", size, from, len(got), err, f.failure())
			}
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	}
	if _, err := (&tarFile{blob: blobOf(nil, digest.Digest{}, 1)}).Seek(-1, io.SeekStart); err == nil {
		t.Error("sought before the first byte")
	}
}

// TestDamageIsNeverComplete reads blobs whose bytes do not match their digests: the last bytes
// never come, and a gzip stream never ends.
func TestDamageIsNeverComplete(t *testing.T) {
	t.Parallel()
	for _, size := range []int{1, aheadBytes - 1, aheadBytes, aheadBytes + 1, 2 * aheadBytes, 3*aheadBytes + 7} {
		content := bytes.Repeat([]byte("content "), size/8+1)[:size]
		packed, right := pack(t, content), digest.FromBytes(content)
		for name, blob := range map[string]func() *cas.Blob{
			"another digest": func() *cas.Blob { return blobOf(packed, digest.FromBytes([]byte("another")), size) },
			"cut off":        func() *cas.Blob { return blobOf(packed[:len(packed)-2], right, size) },
			"longer":         func() *cas.Blob { return blobOf(packed, right, size-1) },
			"cannot be read": func() *cas.Blob {
				blob := blobOf(packed, right, size)
				blob.ReadSeekCloser = unreadable{}
				return blob
			},
		} {
			f := &tarFile{blob: blob()}
			got, err := io.ReadAll(f)
			if err == nil || f.failure() == nil || len(got) >= size {
				t.Errorf("%s, %d bytes: got %d, %v, want less and an error", name, size, len(got), err)
			}
			var out bytes.Buffer
			if err := compress(&out, blob()); err == nil {
				t.Errorf("%s, %d bytes: compressed without an error", name, size)
			}
			if z, err := gzip.NewReader(&out); err == nil {
				if _, err := io.ReadAll(z); err == nil {
					t.Errorf("%s, %d bytes: got a complete gzip stream", name, size)
				}
			}
		}
	}
}

type nopCloser struct{ io.ReadSeeker }

func (nopCloser) Close() error { return nil }

// unreadable is a file of a disk that has failed.
type unreadable struct{ nopCloser }

func (unreadable) Seek(int64, int) (int64, error) { return 0, errors.New("input/output error") }
