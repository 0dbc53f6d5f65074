// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package compose

import (
	"fmt"
	"time"

	"github.com/leatdev/leat/internal/contract/configref"
	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/internal/kit/secret"
	"github.com/leatdev/leat/services/distributor/internal/config/configs"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

// Staged returns the configuration of a service as people wrote it, to be held.
func (s *Composition) Staged() *Held {
	return &Held{Literals: s.Literals, StagedConfig: catalog.StagedConfig{
		Name: s.name, References: s.References, ClusterReferences: s.Literals.References, Restart: s.Literals.Restart,
	}}
}

// Planned returns the configuration that a service is planned with, and its digest. Error:
// catalog.ErrUnavailable if the configuration that the service is held at is not stored, or not
// settled.
func (s *Composition) Planned() (catalog.Config, string, error) {
	switch {
	case s.heldAt == "" && s.State.Digest == "", s.heldAt == catalog.NoConfig:
		return catalog.Config{}, "", nil
	case s.heldAt == "":
		return *WithGiven(s.Literals, s.Given), s.State.Digest, nil
	case s.held == nil || s.State.Held == nil || s.State.Held.Name != s.heldAt:
		err := fmt.Errorf("%w: the configuration of service %s is not composed", catalog.ErrUnavailable, s.Name)
		return catalog.Config{}, "", err
	}
	return *WithGiven(s.held.Literals, s.HeldGiven), s.State.Held.Digest, nil
}

// Shown returns what anybody may see of the configuration that a service is planned with, or nil.
func (s *Composition) Shown() *catalog.Config {
	switch {
	case s.heldAt == "":
		return s.Staged().Shown()
	case s.held != nil:
		return s.held.Shown()
	}
	return nil
}

// Shown returns what anybody may see of a configuration: values, the keys of secrets, and references
// to back ends.
func (h *Held) Shown() *catalog.Config {
	shown := &catalog.Config{
		Values: h.Literals.Values, Secrets: make(map[string]secret.Text, len(h.Literals.Secrets)), References: h.References, Restart: h.Restart,
	}
	for key := range h.Literals.Secrets {
		shown.Secrets[key] = ""
	}
	return shown
}

// allReferences returns the references to back ends of a service's own configuration, and of the one
// that it is held at.
func (s *Composition) allReferences() []map[string]string {
	if s.held == nil {
		return []map[string]string{s.References}
	}
	return []map[string]string{s.References, s.held.References}
}

// earlier returns what a service was given for references, with either configuration.
func (s *Composition) earlier(references map[string]string) map[string]configs.Value {
	if len(s.HeldGiven) == 0 && s.held == nil {
		return s.Given
	}
	return inherited(references, s.Given, s.HeldGiven)
}

// inherited returns the first value that one of several was given for each reference, by the same key
// and the same text.
func inherited(references map[string]string, several ...map[string]configs.Value) map[string]configs.Value {
	found := map[string]configs.Value{}
	for key, text := range references {
		for _, given := range several {
			if value, ok := configref.Had(given, key, text); ok {
				found[key] = value
				break
			}
		}
	}
	return found
}

// decideHeld returns what a service is given of the configuration that it is held at, or nil if it
// has its own. out holds the values for the references of that configuration.
func (s *Composition) decideHeld(out configs.Outcome, digest func([]byte) string, now time.Time) *catalog.HeldConfig {
	var next *catalog.HeldConfig
	switch {
	case s.heldAt == "":
		return nil
	case s.heldAt == catalog.NoConfig:
		return &catalog.HeldConfig{Name: s.heldAt}
	case s.held == nil:
		next = &catalog.HeldConfig{Name: s.heldAt, Waits: true, Problem: &catalog.Problem{
			Reason: reason.ConfigMissing, Message: "the configuration that the service is held at is not stored",
		}}
	default:
		whole := canonical(s.UID, WithGiven(s.held.Literals, out.Values))
		next = &catalog.HeldConfig{Name: s.heldAt, Digest: digest(whole), Waits: out.Waits, Problem: out.Problem}
	}
	var last *catalog.Problem
	if s.State.Held != nil {
		last = s.State.Held.Problem
	}
	next.Problem = since(next.Problem, last, now)
	return next
}

// Differ adds to keys those in which two configurations differ. Either may be nil: it has nothing.
func Differ(a, b *Held, keys map[string]struct{}) {
	from, to := a.texts(), b.texts()
	for key, text := range from {
		if next, ok := to[key]; !ok || next != text {
			keys[key] = struct{}{}
		}
	}
	for key := range to {
		if _, ok := from[key]; !ok {
			keys[key] = struct{}{}
		}
	}
}

// heldText is an item of a configuration under a key. It is comparable.
type heldText struct {
	form string
	text secret.Text
}

func (h *Held) texts() map[string]heldText {
	all := map[string]heldText{}
	if h == nil {
		return all
	}
	for key, text := range h.Literals.Values {
		all[key] = heldText{"value", secret.Text(text)}
	}
	for key, text := range h.Literals.Secrets {
		all[key] = heldText{"secret", text}
	}
	for _, references := range []map[string]string{h.References, h.ClusterReferences} {
		for key, text := range references {
			all[key] = heldText{"reference", secret.Text(text)}
		}
	}
	return all
}

// since returns a problem with its beginning: the beginning of the last one, or now.
func since(next, last *catalog.Problem, now time.Time) *catalog.Problem {
	if next == nil {
		return nil
	}
	begun := *next
	if last != nil {
		begun.Since = last.Since
	}
	// A problem that an earlier version stored without a beginning is not a new one.
	isSame := last != nil && *last == begun
	if begun.Since.IsZero() && !isSame {
		begun.Since = now
	}
	return &begun
}
