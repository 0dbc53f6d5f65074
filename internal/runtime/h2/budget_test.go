// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package h2_test

import (
	"errors"
	"io"
	"net/http"
	"strconv"
	"testing"

	"github.com/leatdev/leat/internal/runtime/h2"
)

// TestTheStillestReaderGoesFirst stops readers until there is too much.
func TestTheStillestReaderGoesFirst(t *testing.T) {
	t.Parallel()
	b := budget(t, 200<<10) // three windows of 64 KiB fit
	client, _ := pair(t, b, endless)
	var bodies []io.ReadCloser
	for i := range 3 {
		bodies = append(bodies, get(t, client).Body)
		await(t, "a full window", func() bool { return client.Unread() == (i+1)*64<<10 })
	}
	if b.Cut() != 0 {
		t.Fatalf("%d streams were cut while everything fit", b.Cut())
	}
	if _, err := io.ReadFull(bodies[0], make([]byte, 1000)); err != nil { // it has not stood still for the longest any more
		t.Fatal(err)
	}
	bodies = append(bodies, get(t, client).Body)
	await(t, "a stream to be cut", func() bool { return b.Cut() > 0 })
	if _, err := io.Copy(io.Discard, bodies[1]); !errors.Is(err, h2.ErrTooSlow) {
		t.Errorf("the stillest reader: got %v, want ErrTooSlow", err)
	}
	// The peer may send as much as is read once more before it is consumed. So little is read at a
	// time that three readers fit anyway.
	for range 256 {
		if _, err := io.ReadFull(bodies[0], make([]byte, 4<<10)); err != nil {
			t.Fatalf("a reader that moved: got %v, want it to go on", err)
		}
	}
	for _, body := range bodies {
		_ = body.Close()
	}
	if b.Used() != 0 {
		t.Errorf("%d bytes are used at the end, want none", b.Used())
	}
}

// TestAnswersThatAreCompleteCount has answers come that are complete, and that are not read.
func TestAnswersThatAreCompleteCount(t *testing.T) {
	t.Parallel()
	const size = 60 << 10
	b := budget(t, 3*size)
	client, _ := pair(t, b, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", strconv.Itoa(size))
		_, _ = io.CopyN(w, zeros{}, size)
	})
	var bodies []io.ReadCloser
	for i := range 3 {
		bodies = append(bodies, get(t, client).Body)
		await(t, "the whole answer", func() bool { return client.Unread() == (i+1)*size })
	}
	bodies = append(bodies, get(t, client).Body)
	await(t, "a stream to be cut", func() bool { return b.Cut() > 0 })
	if _, err := io.Copy(io.Discard, bodies[0]); !errors.Is(err, h2.ErrTooSlow) {
		t.Errorf("the first answer: got %v, want ErrTooSlow", err)
	}
	if n, err := io.Copy(io.Discard, bodies[3]); n != size || err != nil {
		t.Errorf("the last answer: got %d bytes, %v", n, err)
	}
}

// TestTheEndOfAConnectionGivesItsMemoryBack ends one while much is unread, which is still read.
func TestTheEndOfAConnectionGivesItsMemoryBack(t *testing.T) {
	t.Parallel()
	b := budget(t, 1<<20)
	client, _ := pair(t, b, endless)
	res := get(t, client)
	await(t, "a full window", func() bool { return client.Unread() == 64<<10 })
	_ = client.Close()
	<-client.Done()
	if b.Used() != 0 {
		t.Errorf("%d bytes are used after the end, want none", b.Used())
	}
	if n, err := io.Copy(io.Discard, res.Body); n != 64<<10 || err == nil {
		t.Errorf("got %d bytes and %v, want what has come, and an error", n, err)
	}
	if b.Used() != 0 {
		t.Errorf("%d bytes are used after reading, want none", b.Used())
	}
}

func TestBudgetsThatCannotWork(t *testing.T) {
	t.Parallel()
	for _, bytes := range []int64{0, -1, 1 << 31} {
		if _, err := h2.NewBudget(bytes); err == nil {
			t.Errorf("%d bytes were accepted", bytes)
		}
	}
}
