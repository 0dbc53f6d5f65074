// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package artifactstore

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/leatdev/leat/internal/kit/durable"
	"github.com/leatdev/leat/services/gitcache/internal/artifact"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
)

// The names in the folder of a mirror.
const (
	stateFile = "state.json"
	freshFile = "fresh.json"

	artifactPrefix  = "art-"
	artifactSuffix  = ".zst"
	memoPrefix      = "memo-"
	temporaryPrefix = "tmp-"

	layerDigits = 16
)

// fileForm are the files that travel between replicas. It keeps a name that came from elsewhere from
// leaving the folder.
var fileForm = regexp.MustCompile(`^(art-[0-9a-f]{64}(-[0-9a-f]{16})?\.zst|memo-[0-9a-f]{64})$`)

// state is the content of state.json: the mirror as of its last fetch that moved refs, and the
// files that count.
type state struct {
	mirror.Content
	Files map[string]mirror.File `json:"files"` // by name
	Memo  string                 `json:"memo,omitempty"`
}

// freshness is the content of fresh.json: a later poll found nothing new.
type freshness struct {
	FreshAt time.Time `json:"fresh_at"`
	Epoch   uint64    `json:"epoch"`
}

// nameOf returns the name of an artifact's file: its digest, and a sum of the layer if that is not
// the zero Layer.
func nameOf(id artifact.ID) string {
	name := artifactPrefix + id.Digest
	if id.Layer != (artifact.Layer{}) {
		sum := sha256.Sum256([]byte(id.String()))
		name += "-" + hex.EncodeToString(sum[:])[:layerDigits]
	}
	return name + artifactSuffix
}

// digestIn returns the digest in the name of an artifact's file; "" of another file.
func digestIn(name string) string {
	rest, ok := strings.CutPrefix(name, artifactPrefix)
	if !ok {
		return ""
	}
	return rest[:strings.IndexAny(rest, "-.")]
}

// content returns the content with the sizes that the files have.
func (s state) content() mirror.Content {
	c := s.Content
	c.DiskBytes, c.Packs = s.bytes(), s.artifacts()
	return c
}

func (s state) bytes() int64 {
	var sum int64
	for _, f := range s.Files {
		sum += f.Size
	}
	return sum
}

func (s state) artifacts() int {
	n := len(s.Files)
	if s.Memo != "" {
		n--
	}
	return n
}

// with returns the state with further files.
func (s state) with(files map[string]mirror.File) state {
	all := maps.Clone(s.Files)
	if all == nil {
		all = map[string]mirror.File{}
	}
	maps.Copy(all, files)
	s.Files = all
	return s
}

// without returns the state without some files.
func (s state) without(isGone func(name string) bool) state {
	s.Files = maps.Clone(s.Files)
	maps.DeleteFunc(s.Files, func(name string, _ mirror.File) bool { return isGone(name) })
	if _, ok := s.Files[s.Memo]; !ok {
		s.Memo = ""
	}
	return s
}

// readState reads state.json and, where that is later, fresh.json. The error matches os.ErrNotExist
// where there is no mirror.
func readState(home string) (state, error) {
	var s state
	if err := readJSON(filepath.Join(home, stateFile), &s); err != nil {
		return state{}, err
	}
	for name, f := range s.Files {
		if !fileForm.MatchString(name) || f.Name != name {
			return state{}, fmt.Errorf("read state of artifacts: file %.100q", name)
		}
	}
	if _, ok := s.Files[s.Memo]; s.Memo != "" && !ok {
		return state{}, errors.New("read state of artifacts: no memo")
	}
	var f freshness
	if err := readJSON(filepath.Join(home, freshFile), &f); err == nil && f.FreshAt.After(s.FreshAt) {
		s.FreshAt, s.Epoch = f.FreshAt, f.Epoch
	}
	return s, nil
}

func readJSON(path string, into any) error {
	if err := durable.ReadJSON(path, into); err != nil {
		return fmt.Errorf("read state of artifacts: %w", err)
	}
	return nil
}

func writeJSON(path string, v any) error {
	if err := durable.WriteJSON(path, temporaryPrefix, v); err != nil {
		return fmt.Errorf("write state of artifacts: %w", err)
	}
	return nil
}
