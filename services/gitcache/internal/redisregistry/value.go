// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package redisregistry

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/leatdev/leat/internal/contract/upstream"
	"github.com/leatdev/leat/internal/kit/durable"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
)

// copyOnDisk is the hash as it was last read; values are kept sealed.
type copyOnDisk struct {
	Generation string            `json:"generation"`
	Values     map[string]string `json:"values"`
}

// record is a definition as it is sealed: one flat JSON object. Replicas of other versions read and
// write it, too, during an upgrade; they ignore fields that they do not know.
type record struct {
	mirror.Definition
	upstream.Credential
	upstream.Verification
}

// encode makes the hash's value: "version uid base64(sealed record)". Version and UID are outside
// for the scripts; they are inside, too, and only those count.
func (r *Registry) encode(def mirror.Definition) (string, error) {
	plain, err := marshal(def)
	if err != nil {
		return "", fmt.Errorf("encode definition: %w", err)
	}
	sealed, err := r.params.Sealer.Seal(plain, []byte(def.Name))
	if err != nil {
		return "", fmt.Errorf("seal definition: %w", err)
	}
	return fmt.Sprintf("%d %s %s", def.Version, def.UID, base64.StdEncoding.EncodeToString(sealed)), nil
}

// marshal returns the record of a definition with its secrets, which their own encoding hides.
func marshal(def mirror.Definition) ([]byte, error) {
	redacted, err := json.Marshal(record{def, def.Credential, def.Verification})
	if err != nil {
		return nil, err
	}
	var fields map[string]any
	decoder := json.NewDecoder(bytes.NewReader(redacted))
	decoder.UseNumber()
	if err := decoder.Decode(&fields); err != nil {
		return nil, err
	}
	for name, text := range def.Secrets() {
		if text != "" {
			fields[name] = text.Reveal()
		}
	}
	return json.Marshal(fields)
}

func (r *Registry) decode(name, value string) (mirror.Definition, error) {
	parts := strings.SplitN(value, " ", 3)
	sealed, err := base64.StdEncoding.DecodeString(parts[len(parts)-1])
	if err != nil {
		return mirror.Definition{}, fmt.Errorf("decode definition: %w", err)
	}
	plain, err := r.params.Sealer.Open(sealed, []byte(name))
	if err != nil {
		return mirror.Definition{}, fmt.Errorf("open definition: %w", err)
	}
	var read record
	if err := json.Unmarshal(plain, &read); err != nil {
		return mirror.Definition{}, fmt.Errorf("decode definition: %w", err)
	}
	def := read.Definition
	def.Name, def.Credential, def.Verification = name, read.Credential, read.Verification
	return def, nil
}

// prefixChars is how much of a value in base64 names its key: 9 bytes.
const prefixChars = 12

// isCurrent reports whether a value was sealed with the secret that seals now.
func (r *Registry) isCurrent(value string) bool {
	parts := strings.SplitN(value, " ", 3)
	text := parts[len(parts)-1]
	prefix, err := base64.StdEncoding.DecodeString(text[:min(len(text), prefixChars)])
	return err == nil && r.params.Sealer.IsCurrent(prefix)
}

func header(value string) (version int64, uid string, err error) {
	parts := strings.SplitN(value, " ", 3)
	if len(parts) != 3 {
		return 0, "", errors.New("definition without a header")
	}
	version, err = strconv.ParseInt(parts[0], 10, 64)
	return version, parts[1], err
}

// adopt makes a reading the replica's own, on disk first. The caller holds the lock.
func (r *Registry) adopt(ctx context.Context, fetched copyOnDisk) error {
	changed := !r.loaded || fetched.Generation != r.known.Generation || !maps.Equal(fetched.Values, r.known.Values)
	if !changed {
		return nil
	}
	if err := r.saveDisk(fetched); err != nil {
		// Serving continues from memory; only a restart without Redis would miss the change.
		r.params.Logger.WarnContext(ctx, "copy of definitions not written", slog.Any("error", err))
	}
	r.replaceLocked(ctx, fetched)
	return nil
}

// replaceLocked takes over other definitions. Their URLs are known before apply is called: whatever
// it begins may ask.
func (r *Registry) replaceLocked(ctx context.Context, next copyOnDisk) {
	r.known, r.loaded = next, true
	defs, roots := r.decodeAll(ctx, next.Values), map[string]mirror.Root{}
	for _, def := range defs {
		roots[def.UID] = mirror.Root{URL: def.URL, PublicOnly: def.PublicOnly}
	}
	r.roots.Store(&roots)
	r.apply(defs)
}

// decodeAll leaves out values that do not open: another replica uses another secret, and the log
// reports it.
func (r *Registry) decodeAll(ctx context.Context, values map[string]string) []mirror.Definition {
	defs := make([]mirror.Definition, 0, len(values))
	for _, name := range slices.Sorted(maps.Keys(values)) {
		def, err := r.decode(name, values[name])
		if err != nil {
			r.params.Logger.ErrorContext(ctx, "definition not readable",
				slog.String("leat.repository", name), slog.Any("error", err))
			continue
		}
		defs = append(defs, def)
	}
	return defs
}

func (r *Registry) loadDisk(ctx context.Context, apply func([]mirror.Definition)) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.apply = apply
	data, err := os.ReadFile(r.params.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read copy of definitions: %w", err)
	}
	var onDisk copyOnDisk
	if err := json.Unmarshal(data, &onDisk); err != nil {
		r.params.Logger.WarnContext(ctx, "copy of definitions not readable", slog.Any("error", err))
		return nil
	}
	r.replaceLocked(ctx, onDisk)
	return nil
}

// saveDisk replaces the file atomically.
func (r *Registry) saveDisk(c copyOnDisk) error {
	data, err := json.Marshal(c)
	if err != nil {
		return err
	}
	return durable.WriteFile(r.params.Path, ".definitions-", data)
}
