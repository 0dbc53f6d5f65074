// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package recording writes the output of a terminal into asciicast v2 files. It reads along: the
// bytes of a session in the protocols of remotecommand, WebSocket (v4 and v5) and SPDY/3.1, are
// handed to it on their way.
package recording

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/leatdev/leat/internal/runtime/audit"
	"github.com/leatdev/leat/services/tunnel/internal/kubeapi"
)

// Params select what is recorded. Dir and Logger are required.
type Params struct {
	// Dir is the folder of the recordings. It is made if it does not exist.
	Dir string
	// Input records keystrokes, too, passwords among it.
	Input bool
	// Required refuses and ends sessions that cannot be recorded. Otherwise the recording ends, and
	// the session continues.
	Required bool
	// MaxSize bounds a recording's file, in bytes.
	MaxSize int64
	// KeepFor is how long recordings are kept that nothing is written to. Zero means for ever.
	KeepFor time.Duration
	// Logger is told of recordings that break off.
	Logger *slog.Logger
}

// Info describes a recording's session.
type Info struct {
	// ID is the ID of its audit records.
	ID string `json:"id"`
	// Subject is the person, and Cluster the cluster's name.
	Subject string `json:"subject"`
	Cluster string `json:"cluster"`
	// Namespace, Pod and Container are where the session is. An empty container is the pod's
	// default.
	Namespace string `json:"namespace"`
	Pod       string `json:"pod"`
	Container string `json:"container,omitempty"`
	// Command is the program that is run. A session that is attached to has none.
	Command []string `json:"command,omitempty"`
}

func (i Info) command() string { return strings.Join(i.Command, " ") }

func (i Info) title() string {
	return fmt.Sprintf("%s at %s: %s/%s", i.Subject, i.Cluster, i.Namespace, i.Pod)
}

// Describe returns the description of a request to record. ok is false for all but sessions with a
// terminal.
func Describe(method, path, query string) (info Info, ok bool) {
	a := kubeapi.Parse(method, path, query)
	if a.APIGroup != "" || a.Resource != "pods" || a.Subresource != "exec" && a.Subresource != "attach" {
		return Info{}, false
	}
	values, _ := url.ParseQuery(query)
	tty := values.Get("tty")
	if !values.Has("tty") || tty == "0" || strings.EqualFold(tty, "false") {
		return Info{}, false
	}
	return Info{Namespace: a.Namespace, Pod: a.Name, Container: values.Get("container"), Command: values["command"]}, true
}

// evades reports whether a request could be a session that no recording shows. Among upgraded
// connections, only exec, attach and port-forward of pods, watches and logs can be recognized.
// nodes/proxy leads to the kubelet, which runs commands in containers: over upgraded connections,
// and for a POST without one.
func evades(method string, a kubeapi.Attributes, upgraded bool) bool {
	isNodeProxy := a.APIGroup == "" && a.Resource == "nodes" && a.Subresource == "proxy" || a.Verb == kubeapi.VerbProxy
	reads := method == http.MethodGet || method == http.MethodHead || method == http.MethodOptions
	if isNodeProxy && !reads {
		return true
	}
	if !upgraded || a.Verb == kubeapi.VerbWatch {
		return false
	}
	if a.APIGroup != "" || a.Resource != "pods" {
		return true
	}
	switch a.Subresource {
	case "exec", "attach", "portforward", "log":
		return false
	}
	return true
}

// Evades reports whether a request must be refused because it could be a session that has to be
// recorded and cannot be.
func (s *Store) Evades(method string, asked kubeapi.Attributes, upgraded bool) bool {
	return s.params.Required && evades(method, asked, upgraded)
}

// Store has the recordings of a folder, and begins others. It is safe for concurrent use.
type Store struct {
	params  Params
	running sync.Map // ids of running sessions
}

// NewStore returns a store. It fails when the folder cannot be made.
func NewStore(params Params) (*Store, error) {
	if err := os.MkdirAll(params.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("make folder of recordings: %w", err)
	}
	return &Store{params: params}, nil
}

// Rules are what people need to know before a session of theirs is recorded.
type Rules struct {
	// Input reports that keystrokes are recorded, too.
	Input bool
	// Required reports that sessions that cannot be recorded are refused and ended.
	Required bool
}

// Rules returns the rules of the store.
func (s *Store) Rules() Rules { return Rules{Input: s.params.Input, Required: s.params.Required} }

// Begin makes the file of a session. It returns nil and no error when it cannot be made and need
// not.
func (s *Store) Begin(ctx context.Context, info Info) (*Recording, error) {
	if !ValidID(info.ID) {
		return nil, fmt.Errorf("recording with the id %q: want at most %d letters, digits and hyphens", info.ID, maxID)
	}
	cast, err := newCast(filepath.Join(s.params.Dir, info.ID+suffix), info, s.params.MaxSize, s.params.Required)
	if err == nil {
		s.running.Store(info.ID, nil)
		return &Recording{params: s.params, cast: cast, id: info.ID, ended: func() { s.running.Delete(info.ID) }}, nil
	}
	if s.params.Required {
		return nil, err
	}
	s.params.Logger.ErrorContext(ctx, "session is not recorded", slog.String("id", info.ID), slog.String("error", err.Error()))
	return nil, nil
}

// Recording is one session's. FromCaller and FromCluster may run at the same time as each other.
type Recording struct {
	params  Params
	cast    *cast
	id      string
	caller  func([]byte) error
	cluster func([]byte) error
	ended   func()
}

// Upgraded records the protocol that was agreed on. It is called before any byte.
func (r *Recording) Upgraded(protocol string, header http.Header) {
	subprotocol := header.Get("Sec-WebSocket-Protocol")
	switch {
	case strings.EqualFold(protocol, "websocket") && header.Get("Sec-WebSocket-Extensions") == "" &&
		(subprotocol == "v4.channel.k8s.io" || subprotocol == "v5.channel.k8s.io"):
		r.caller, r.cluster = (&websocket{emit: r.fromCaller}).feed, (&websocket{emit: r.fromCluster}).feed
	case strings.EqualFold(protocol, "SPDY/3.1"):
		shared := &streams{channels: map[uint32]byte{}}
		up, err := newSPDYReader(shared, r.fromCaller, true)
		if err != nil {
			_ = r.cast.fail(err)
			return
		}
		down, err := newSPDYReader(shared, r.fromCluster, false)
		if err != nil {
			_ = r.cast.fail(err)
			return
		}
		r.caller, r.cluster = up.feed, down.feed
	default:
		_ = r.cast.fail(fmt.Errorf("sessions over %s with %q are not understood", protocol, subprotocol))
	}
}

// FromCaller reads along what the caller sends. The error, of a session that must be recorded, ends
// it.
func (r *Recording) FromCaller(p []byte) error { return r.read(r.caller, p) }

// FromCluster reads along what the cluster sends.
func (r *Recording) FromCluster(p []byte) error { return r.read(r.cluster, p) }

func (r *Recording) read(feed func([]byte) error, p []byte) error {
	err := errors.New("no protocol that is understood was agreed on")
	if feed != nil {
		err = feed(p)
	}
	if err == nil {
		return nil
	}
	_ = r.cast.fail(err)
	if r.params.Required {
		return fmt.Errorf("record session: %w", err)
	}
	return nil
}

func (r *Recording) fromCluster(channel byte, data []byte) error {
	if channel != channelStdout && channel != channelStderr {
		return nil
	}
	return r.cast.event("o", data)
}

func (r *Recording) fromCaller(channel byte, data []byte) error {
	switch channel {
	case channelStdin:
		if r.params.Input {
			return r.cast.event("i", data)
		}
	case channelResize:
		var size struct{ Width, Height uint16 }
		if json.Unmarshal(data, &size) == nil && size.Width > 0 { // one that was cut in two is left out
			return r.cast.event("r", fmt.Appendf(nil, "%dx%d", size.Width, size.Height))
		}
	}
	return nil
}

// End ends the file. It is called once, and last.
func (r *Recording) End(audit.Outcome) {
	defer r.ended()
	if err := r.cast.close(); err != nil {
		r.params.Logger.WarnContext(context.Background(), "recording is not whole", slog.String("id", r.id), slog.String("error", err.Error()))
	}
}
