// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package tunnel

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/leatdev/leat/internal/config"
	"github.com/leatdev/leat/services/tunnel/internal/kubeapi"
	"github.com/leatdev/leat/services/tunnel/internal/kubeproxy"
	"github.com/leatdev/leat/services/tunnel/internal/recording"
)

// defaultRecordMaxSize is hours of a busy terminal.
const defaultRecordMaxSize = 64 << 20

// RecordConfig says which sessions are recorded. The zero value records none.
type RecordConfig struct {
	// Dir is the folder of the recordings. Empty: there are none.
	Dir string
	// Input records what is typed, too.
	Input bool
	// Required refuses and ends sessions that cannot be recorded.
	Required bool
	// MaxSize bounds one recording. Zero means 64 MiB.
	MaxSize config.Bytes
	// KeepFor is how long recordings are kept. Zero means for ever.
	KeepFor time.Duration
}

// Bind binds the fields.
func (c *RecordConfig) Bind(s *config.Set) {
	s.String(&c.Dir, "tunnel-record-dir", "", "folder for recordings (asciicast) of exec and attach with a terminal; empty records none")
	s.Bool(&c.Input, "tunnel-record-input", false, "record what people type, too, passwords among it")
	s.Bool(&c.Required, "tunnel-record-required", false, "refuse and end sessions that cannot be recorded")
	s.Size(&c.MaxSize, "tunnel-record-max-size", defaultRecordMaxSize, "size at which a recording ends, and with it a session that must be recorded")
	s.Duration(&c.KeepFor, "tunnel-record-keep-for", 0, "how long recordings are kept; 0 keeps them for ever")
}

func (c *RecordConfig) check() error {
	if c.Dir == "" && (c.Required || c.Input || c.KeepFor != 0) {
		return errors.New("--tunnel-record-required, --tunnel-record-input and --tunnel-record-keep-for need --tunnel-record-dir")
	}
	if c.KeepFor < 0 {
		return errors.New("--tunnel-record-keep-for must not be negative")
	}
	if c.MaxSize < 0 {
		return errors.New("--tunnel-record-max-size must not be negative")
	}
	return nil
}

// open returns the store of recordings, or nil when nothing is recorded.
func (c *RecordConfig) open(logger *slog.Logger) (*recording.Store, error) {
	if c.Dir == "" {
		return nil, nil
	}
	size := int64(c.MaxSize)
	if size == 0 {
		size = defaultRecordMaxSize
	}
	return recording.NewStore(recording.Params{
		Dir: c.Dir, Input: c.Input, Required: c.Required, MaxSize: size, KeepFor: c.KeepFor, Logger: logger,
	})
}

// recorderOf returns nil when nothing is recorded.
func recorderOf(store *recording.Store) kubeproxy.Recorder {
	if store == nil {
		return nil
	}
	return recorder{store: store}
}

// sweep deletes old recordings until ctx ends. The returned function waits for that.
func sweep(ctx context.Context, store *recording.Store) (wait func()) {
	var sweeping sync.WaitGroup
	if store != nil {
		sweeping.Go(func() { store.Run(ctx) })
	}
	return sweeping.Wait
}

// recorder records sessions with a terminal.
type recorder struct {
	store *recording.Store
}

// Evades implements kubeproxy.Recorder.
func (r recorder) Evades(method string, asked kubeapi.Attributes, upgraded bool) bool {
	return r.store.Evades(method, asked, upgraded)
}

// Begin implements kubeproxy.Recorder.
func (r recorder) Begin(ctx context.Context, s kubeproxy.Session) (kubeproxy.Recording, error) {
	info, ok := recording.Describe(s.Method, s.Path, s.Query)
	if !ok {
		return nil, nil
	}
	info.ID, info.Subject, info.Cluster = s.ID, s.Subject, s.Cluster
	begun, err := r.store.Begin(ctx, info)
	if begun == nil { // not an interface that holds nil
		return nil, err
	}
	return begun, nil
}
