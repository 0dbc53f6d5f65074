// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package fanin_test

import (
	"encoding/binary"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/leatdev/leat/services/tunnel/internal/fanin"
)

// raw feeds a watch byte by byte and returns what its viewer has.
func raw(t *testing.T, contentType string, params fanin.Params, pieces ...string) (s *apiServer, relay *fanin.Relay, v *viewer) {
	t.Helper()
	s, relay = newServer(), fanin.New(params)
	s.header = http.Header{"Content-Type": {contentType}}
	v = watch(t, relay, s, from(1))
	for _, piece := range pieces {
		s.last().sendAll(piece)
		synctest.Wait()
	}
	return s, relay, v
}

func TestEventWithoutLineEndIsDeliveredAtOnce(t *testing.T) {
	run(t, func(t *testing.T) {
		s, _, v := raw(t, "application/json", fanin.Params{}, `{"type":"ADDED","object":{}`, `}`)
		v.want(s.last().all())
		s.last().sendAll("\n" + `{"type":"AD`)
		v.want(`{"type":"ADDED","object":{}}` + "\n")
		s.endAll(io.EOF)
		v.want(s.last().all())
		v.leave()
	})
}

func TestProtobufEventsAreShared(t *testing.T) {
	run(t, func(t *testing.T) {
		event := func(size int) string {
			return string(binary.BigEndian.AppendUint32(nil, uint32(size))) + strings.Repeat("p", size)
		}
		s, relay, v := raw(t, "application/vnd.kubernetes.protobuf;stream=watch", fanin.Params{FrameBytes: 100},
			event(7)+event(0)+event(5)[:3], event(5)[3:], event(20)[:10])
		v.want(event(7) + event(0) + event(5))
		late := watch(t, relay, s, from(1))
		other := watch(t, relay, s, from(2)) // not known to be in there
		s.wantWatches(t, 2, 2)
		all := s.watches[0]
		all.sendAll(event(20)[10:] + event(1000)[:300])
		synctest.Wait()
		all.sendAll(event(1000)[300:] + event(3))
		v.want(all.all())
		late.want(all.all())
		relay.Drain()
		for _, v := range []*viewer{v, late, other} {
			v.leave()
		}
	})
}

func TestEventThatIsTooLongIsPassedOnInPieces(t *testing.T) {
	run(t, func(t *testing.T) {
		long := `{"type":"ADDED","object":{"x":"` + strings.Repeat("x", 100_000) + `"}}` + "\n"
		s, relay, v := raw(t, "application/json", fanin.Params{FrameBytes: 1000, HistoryBytes: 20_000, Ahead: 1000}, long[:5000])
		first := s.last()
		stalled, err := ask(t, relay, s, from(1), nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := stalled.readSome(10); err != nil {
			t.Fatal(err)
		}
		first.sendAll(long[5000:90_000])
		synctest.Wait()
		if got := len(v.text()); got < 80_000 {
			t.Errorf("got %d bytes of the event, want what has arrived but for the last piece", got)
		}
		first.sendAll(long[90_000:])
		v.want(first.all())
		go stalled.readAll() // it has lost the rest of what it began, and must not take it for whole
		synctest.Wait()
		if stalled.err == nil || errors.Is(stalled.err, io.EOF) {
			t.Errorf("got %v, want an error", stalled.err)
		}
		relay.Drain()
		v.leave()
		stalled.leave()
	})
}
