// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package backup_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"reflect"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"filippo.io/age"
	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/zstd"

	"github.com/leatdev/leat/services/distributor/internal/keys/backup"
	"github.com/leatdev/leat/services/distributor/internal/keys/keyroot"
)

func root(t testing.TB, secret string) keyroot.Root {
	t.Helper()
	r, err := keyroot.NewLocal([]byte(secret))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

const (
	ours   = "the root of the hub in this test, long enough"
	others = "the root of another hub in the test, long enough"
)

var header = backup.Header{Format: 1, MadeAt: time.Unix(1_800_000_000, 0).UTC(), Version: "v1.2.3", Schema: []string{"1", "2"}}

// rowsOf are values of every kind.
func rowsOf(n int) []backup.Row {
	rows := []backup.Row{{nil, "", int64(0), false, []byte{}}, {"it's <b> ☃\n\u2028", int64(1)<<62 + 1, int64(-1), true, []byte{0, 255}}, {"not \xff text", nil, nil, nil, nil}}
	for i := range n {
		rows = append(rows, backup.Row{fmt.Sprintf("row %d", i), int64(i), rand.Int64(), i%2 == 0, []byte(fmt.Sprint(i))})
	}
	return rows
}

func write(t testing.TB, root keyroot.Root, rows []backup.Row) []byte {
	t.Helper()
	var file bytes.Buffer
	w, err := backup.NewWriter(t.Context(), &file, root, header)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Table(backup.Table{Name: "things", Columns: []string{"a", "b", "c", "d", "e"}}); err != nil {
		t.Fatal(err)
	}
	for _, row := range rows {
		if err := w.Row(row); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return file.Bytes()
}

// read reads a backup to its end.
func read(t testing.TB, file io.Reader, roots ...keyroot.Root) (h backup.Header, rows []backup.Row, err error) {
	t.Helper()
	r, err := backup.NewReader(t.Context(), file, roots)
	if err != nil {
		return h, nil, err
	}
	defer r.Close()
	for {
		table, row, err := r.Next()
		if err != nil || table == nil && row == nil {
			return r.Header, rows, err
		}
		if row != nil {
			rows = append(rows, row)
		}
	}
}

func TestWhatIsWrittenIsRead(t *testing.T) {
	t.Parallel()
	want := rowsOf(1000)
	// A root that was replaced is accepted as long as the settings name it.
	h, got, err := read(t, bytes.NewReader(write(t, root(t, ours), want)), root(t, others), root(t, ours))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(header, h); diff != "" {
		t.Errorf("header (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("rows (-want +got):\n%s", diff)
	}
}

func TestWriterRefusesWhatReadersRefuse(t *testing.T) {
	t.Parallel()
	w, err := backup.NewWriter(t.Context(), io.Discard, root(t, ours), header)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Row(backup.Row{strings.Repeat("x", 64<<20)}); !errors.Is(err, backup.ErrTooLarge) {
		t.Errorf("got %v, want that the row is too large", err)
	}
	if err := w.Row(backup.Row{1.5}); err == nil {
		t.Error("a value of an unknown kind was written")
	}
}

// TestSecBackupsAreRefused gives the reader files that are truncated, altered, made with another
// root or no backups: each is refused with its reason, and no row is read that was not written.
func TestSecBackupsAreRefused(t *testing.T) {
	t.Parallel()
	want := rowsOf(2000)
	whole := write(t, root(t, ours), want)
	refused := func(name string, file []byte) {
		t.Helper()
		_, rows, err := read(t, bytes.NewReader(file), root(t, ours))
		if !errors.Is(err, backup.ErrDamaged) && !errors.Is(err, backup.ErrForeign) && !errors.Is(err, backup.ErrRoot) {
			t.Errorf("%s: got %v, want a refusal", name, err)
		}
		for i, row := range rows {
			if !reflect.DeepEqual(want[i], row) {
				t.Fatalf("%s: row %d: got %v, want %v", name, i, row, want[i])
			}
		}
	}
	for range 60 {
		at := rand.IntN(len(whole))
		refused(fmt.Sprintf("truncated at %d", at), whole[:at])
		altered := bytes.Clone(whole)
		altered[at] ^= 1 << rand.IntN(8)
		refused(fmt.Sprintf("altered at %d", at), altered)
	}
	refused("truncated by a byte", whole[:len(whole)-1])
	refused("longer by a byte", append(bytes.Clone(whole), 0))
	refused("twice", append(bytes.Clone(whole), whole...))
	refused("empty", nil)
	refused("SQLite", []byte("SQLite format 3\x00"))

	_, _, err := read(t, bytes.NewReader(whole), root(t, others))
	if !errors.Is(err, backup.ErrRoot) || !strings.Contains(err.Error(), root(t, ours).Name()) {
		t.Errorf("another root: got %v, want the name of the root that is needed", err)
	}
	stranger, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	var foreign bytes.Buffer
	if to, err := age.Encrypt(&foreign, stranger.Recipient()); err != nil || to.Close() != nil {
		t.Fatal(err)
	}
	if _, _, err := read(t, &foreign, root(t, ours)); !errors.Is(err, backup.ErrForeign) {
		t.Errorf("file of another program: got %v, want %v", err, backup.ErrForeign)
	}
}

// endless is a header without an end.
type endless struct {
	begun bool
	read  int
}

func (e *endless) Read(p []byte) (int, error) {
	text := "-> X25519 TEiF0ypqr+bpvcqXNyCVJpL7OuwPdVwPL7KQEbFDOCc\nc2NyeXB0IGlzIG5vdCB1c2VkIGhlcmU\n"
	if !e.begun {
		text, e.begun = "age-encryption.org/v1\n", true
	}
	n := copy(p, text)
	e.read += n
	return n, nil
}

// sealed returns a file that the right root has sealed, with any content.
func sealed(t *testing.T, content func(io.Writer) error) []byte {
	t.Helper()
	var file bytes.Buffer
	to, err := age.Encrypt(&file, recipient{t, root(t, ours)})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(content(to), to.Close()); err != nil {
		t.Fatal(err)
	}
	return file.Bytes()
}

type recipient struct {
	t    *testing.T
	root keyroot.Root
}

func (r recipient) Wrap(key []byte) ([]*age.Stanza, error) {
	body, err := r.root.Wrap(r.t.Context(), key, "backup")
	return []*age.Stanza{{Type: "leat-root", Args: []string{r.root.Name()}, Body: body}}, err
}

// TestSecBackupsAreBounded gives the reader files that grow when they are read. It refuses each
// before it has used much memory. A person who has the root can make such a file.
func TestSecBackupsAreBounded(t *testing.T) {
	head := `{"leatBackup":1,"madeAt":"2026-01-01T00:00:00Z","version":"v1","schema":[]}` + "\n"
	compress := func(fill func(w io.Writer) error) []byte {
		return sealed(t, func(to io.Writer) error {
			w, err := zstd.NewWriter(to)
			return errors.Join(err, fill(w), w.Close())
		})
	}
	repeat := func(w io.Writer, text string, n int) error {
		for range n {
			if _, err := io.WriteString(w, text); err != nil {
				return err
			}
		}
		return nil
	}
	defer debug.SetGCPercent(debug.SetGCPercent(100)) // as it is shipped; make test collects less often
	block := strings.Repeat("0", 1<<20)
	for name, file := range map[string][]byte{
		"one row of 80 MiB": compress(func(w io.Writer) error {
			_, err := io.WriteString(w, head+`["`)
			return errors.Join(err, repeat(w, block, 80))
		}),
		"100 MiB of rows": compress(func(w io.Writer) error {
			_, err := io.WriteString(w, head+`{"table":"a","columns":["a"]}`+"\n")
			return errors.Join(err, repeat(w, `["`+block+`"]`+"\n", 100))
		}),
		"a window of 512 MiB": sealed(t, func(to io.Writer) error {
			w, err := zstd.NewWriter(to, zstd.WithWindowSize(zstd.MaxWindowSize))
			return errors.Join(err, repeat(w, head, 1), repeat(w, block, 10), w.Close())
		}),
		"no header":       compress(func(w io.Writer) error { return repeat(w, "[]\n", 1) }),
		"a later form":    compress(func(w io.Writer) error { return repeat(w, strings.Replace(head, "1", "2", 1), 1) }),
		"another number":  compress(func(w io.Writer) error { return repeat(w, head+`{"rows":1}`+"\n", 1) }),
		"rows of nesting": compress(func(w io.Writer) error { return repeat(w, head+"[[[]]]\n", 1) }),
		"after the end":   compress(func(w io.Writer) error { return repeat(w, head+`{"rows":0}`+"\n[1]\n", 1) }),
		"no compression":  sealed(t, func(to io.Writer) error { return repeat(to, head, 1) }),
	} {
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		r, err := backup.NewReader(t.Context(), bytes.NewReader(file), []keyroot.Root{root(t, ours)})
		for err == nil {
			var table *backup.Table
			var row backup.Row
			if table, row, err = r.Next(); err == nil && table == nil && row == nil {
				break
			}
		}
		if !errors.Is(err, backup.ErrDamaged) && !errors.Is(err, backup.ErrForeign) {
			t.Errorf("%s: got %v, want a refusal", name, err)
		}
		runtime.ReadMemStats(&after)
		if grown := int64(after.Sys) - int64(before.Sys); grown > 400<<20 {
			t.Errorf("%s: the reader took %d MiB", name, grown>>20)
		}
		if r != nil {
			r.Close()
		}
	}
	header := &endless{}
	if _, _, err := read(t, header, root(t, ours)); !errors.Is(err, backup.ErrForeign) || header.read > 256<<10 {
		t.Errorf("endless header: got %v after %d bytes, want a refusal", err, header.read)
	}
}
