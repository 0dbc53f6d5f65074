// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"cmp"
	"context"
	"errors"
	"maps"

	"github.com/leatdev/leat/internal/contract/objectname"
	"github.com/leatdev/leat/internal/kit/fielderr"
	"github.com/leatdev/leat/services/distributor/internal/spine/check"
)

// maxSetsOfProject bounds the sets that a project has.
const maxSetsOfProject = 1000

// ConfigSet is a named set of values, secrets and references. Projects and services list sets, and
// references name single keys of them.
type ConfigSet struct {
	Metadata
	Spec ConfigSetSpec
	// SecretMarks stand for the secrets, by key. The store sets them.
	SecretMarks map[string]SecretMark
}

// SecretMark stands for a secret where the secret itself is not known. All readers may see that it
// is another one than before, and none which it is.
type SecretMark struct {
	// Digest is a keyed digest.
	Digest string `json:"digest"`
	// Bytes is the length of the secret.
	Bytes int `json:"bytes"`
}

// ConfigSetSpec is the content of a set.
type ConfigSetSpec struct {
	// Description is a sentence for people.
	Description string
	// Config is nil where none is given: none for a new set, the stored one in an update.
	Config *Config
}

// Key implements Object.
func (s *ConfigSet) Key() Key { return Key{KindConfigSet, s.Name} }

// Validate implements Object.
func (s *ConfigSet) Validate() error {
	return cmp.Or(s.validate(KindConfigSet), check.Description(s.Spec.Description), s.Spec.Config.validate(), s.Spec.Config.validateShared())
}

func (s *ConfigSet) sameSpec(other Object) bool {
	o, ok := other.(*ConfigSet)
	return ok && s.Spec.Description == o.Spec.Description && s.Spec.Config.equal(o.Spec.Config)
}

func (s *ConfigSet) clone() Object { return new(*s) }

func (s *ConfigSet) normalize() {}

// settle implements Object, as for a service.
func (s *ConfigSet) settle(stored Object) (err error) {
	had := new(ConfigSet)
	if have, ok := stored.(*ConfigSet); ok {
		had = have
	}
	s.Spec.Config, err = settled(s.Spec.Config, had.Spec.Config)
	return err
}

func (s *ConfigSet) reachable() error                              { return nil }
func (s *ConfigSet) checkReferences(context.Context, Reader) error { return nil }

func (s *ConfigSet) checkSettled(ctx context.Context, tx Reader) error {
	own, err := ownProject(ctx, tx, s.Name)
	if err != nil {
		return err
	}
	return checkConfig(ctx, tx, configPath, s.Spec.Config, own, nil)
}

func (s *ConfigSet) room(ProjectQuotas) Room {
	return Room{Most: maxSetsOfProject, Words: "sets of configuration"}
}

func (s *ConfigSet) secrets() map[string]any { return s.Spec.Config.secrets() }

func (s *ConfigSet) changesRelease(stored Object) bool {
	have, ok := stored.(*ConfigSet)
	return !ok || !have.Spec.Config.equal(s.Spec.Config)
}

// Place implements Object.
func (s *ConfigSet) Place() Place { return Place{Project: objectname.Project(s.Name)} }

// checkConfig refuses references that lead nowhere for objects of a project. field is the field of
// the configuration. Without facts it leaves references that hold facts to the services that use
// them.
func checkConfig(ctx context.Context, tx Reader, field string, config *Config, own *Project, facts *ConfigFacts) error {
	if config == nil {
		return nil
	}
	for _, key := range config.referenceKeys() {
		if err := checkConfigReference(ctx, tx, field+".references["+key+"]", config.References[key], own, facts); err != nil {
			return err
		}
	}
	return nil
}

func checkConfigReference(ctx context.Context, tx Reader, field, text string, own *Project, facts *ConfigFacts) error {
	switch {
	case HasFacts(text) && facts == nil:
		return checkOpenBackend(ctx, tx, field, text, own)
	case HasFacts(text):
		expanded, err := facts.Expand(text)
		if missing, ok := errors.AsType[*FactError](err); ok && missing.IsMissing && IsOptional(text) {
			return nil
		}
		if err != nil {
			return fielderr.New(field, "%v", err)
		}
		text = expanded
	}
	if !IsHubReference(text) {
		return checkBackendReference(ctx, tx, field, text, own.Name)
	}
	return checkHubReference(ctx, tx, field, text, own)
}

// checkOpenBackend is checkConfigReference for a reference whose path is not known yet.
func checkOpenBackend(ctx context.Context, tx Reader, field, text string, own *Project) error {
	if IsHubReference(text) {
		return nil
	}
	reference, err := ParseReference(withoutFacts(text))
	if err != nil {
		return fielderr.Within(field, err)
	}
	_, err = openBackend(ctx, tx, field, reference.Backend, own.Name)
	return err
}

// checkHubReference refuses a reference to a set that does not exist or is not shared, or to a key
// that the set does not have, and references that form a circle or a long chain.
func checkHubReference(ctx context.Context, tx Reader, field, text string, own *Project) error {
	author := own
	seen := map[HubReference]struct{}{}
	for IsHubReference(text) && !HasFacts(text) {
		reference, err := ParseHubReference(text, author.Name)
		if err != nil {
			return fielderr.Within(field, err)
		}
		place := HubReference{Set: reference.Set, Key: reference.Key}
		if _, again := seen[place]; again || len(seen) == MaxHubHops {
			return fielderr.New(field, "%v", &ReferenceChainError{At: text, IsCircle: again})
		}
		seen[place] = struct{}{}
		object, err := author.referred(ctx, tx, Key{KindConfigSet, reference.Set}, field)
		if err != nil {
			return err
		}
		set, ok := object.(*ConfigSet)
		if !ok {
			return &ReferenceError{Key: Key{KindConfigSet, reference.Set}, Path: field}
		}
		next, isReference := set.Spec.Config.reference(reference.Key)
		if !isReference {
			if !set.Spec.Config.has(reference.Key) && !reference.Optional {
				return fielderr.New(field, "names the key %q, which %s does not have", reference.Key, set.Key())
			}
			return nil
		}
		if text = next; author.Name != objectname.Project(set.Name) {
			if author, err = ownProject(ctx, tx, set.Name); err != nil {
				return err
			}
		}
	}
	return nil
}

// reference returns the reference under a key.
func (c *Config) reference(key string) (text string, ok bool) {
	if c == nil {
		return "", false
	}
	text, ok = c.References[key]
	return text, ok
}

// has reports whether there is a value, a secret or a reference under a key.
func (c *Config) has(key string) bool {
	if c == nil {
		return false
	}
	_, isValue := c.Values[key]
	_, isSecret := c.Secrets[key]
	_, isReference := c.References[key]
	return isValue || isSecret || isReference
}

// settled returns the stored form of a configuration: it takes over what an update leaves out, and
// secrets that it sends back as they were shown. stored is nil when there is none.
func settled(given, stored *Config) (*Config, error) {
	switch {
	case given == nil:
		return stored, nil
	case given.Empty():
		return nil, nil
	}
	next := &Config{Values: given.Values, Secrets: maps.Clone(given.Secrets), References: given.References, Restart: given.Restart}
	for key, text := range given.Secrets {
		if text != "" {
			continue
		}
		if stored == nil || stored.Secrets[key] == "" {
			return nil, fielderr.New(secretPath(key), "is empty, and no secret is stored under this key")
		}
		next.Secrets[key] = stored.Secrets[key]
	}
	return next, nil
}
