// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package layers

import (
	"errors"
	"fmt"
	"slices"

	"github.com/leatdev/leat/internal/contract/objectname"
	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/internal/kit/secret"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

// Input is the input of Compose.
type Input struct {
	// Layers are in their order, the lowest first.
	Layers []Layer
	Facts  catalog.ConfigFacts
	// Find returns a set that the service's project may use. Nil: the project has no such set.
	Find func(path string) *catalog.ConfigSet
	// Bytes returns the length of an item's value. Nil: it is the length of its text.
	Bytes func(Item) int
}

// Key is one key of a composed configuration.
type Key struct {
	Won
	// Through are the paths of the sets that references led through, in order.
	Through []string
	// Final is the target of the layer's item: itself, a set's item, or a reference to a back end with
	// the values of facts. Its Text is empty if IsAbsent or Err is set.
	Final Item
	// IsAbsent means that the value is missing, as its reference allows.
	IsAbsent bool
	// Err is why the reference leads nowhere: a *MissingError, a *catalog.FactError, a
	// *catalog.ReferenceChainError, or the defect of its text.
	Err error
}

// Composed is the whole configuration of a service.
type Composed struct {
	// Keys is empty if the configuration is too large.
	Keys map[string]Key
	// Sets are the sets that references looked for, by path. False: there was none to use.
	Sets map[string]bool
	// Facts are the names of the facts that references held, in the order in which they were met. Facts
	// with equal values make an equal configuration.
	Facts []string
	// Problem is the problem; nil: none. Waits means that the service must not be changed until that
	// is corrected.
	Problem *catalog.Problem
	Waits   bool
}

// MissingError means that a reference names a set or a key that is not there for the service.
type MissingError struct{ At string }

// Error implements error. A set that another project does not share reads as one that does not exist.
func (e *MissingError) Error() string {
	return fmt.Sprintf("%s: there is no such key of a set for this project", e.At)
}

// Compose returns what a service's configuration is made of.
func Compose(in Input) Composed {
	out := Composed{Keys: map[string]Key{}, Sets: map[string]bool{}}
	won := Merge(in.Layers)
	if len(won) > catalog.MaxConfigKeys {
		out.tooLarge(fmt.Sprintf("the layers have %d keys together; at most %d are allowed", len(won), catalog.MaxConfigKeys))
		return out
	}
	if in.Bytes == nil {
		in.Bytes = func(item Item) int { return len(item.Text) }
	}
	total := 0
	for _, name := range sortedKeys(won) {
		key := in.follow(won[name], &out)
		if total += len(name) + in.Bytes(key.Final); total > catalog.MaxConfigBytes {
			out.Keys = map[string]Key{}
			out.tooLarge(fmt.Sprintf("the layers have more than %d bytes together", catalog.MaxConfigBytes))
			return out
		}
		out.Keys[name] = key
		if key.Err != nil && !out.Waits {
			out.Waits, out.Problem = true, problemOf(name, key)
		}
	}
	return out
}

func (c *Composed) tooLarge(message string) {
	c.Waits, c.Problem = true, &catalog.Problem{Reason: reason.ConfigTooLarge, Message: message}
}

func problemOf(name string, key Key) *catalog.Problem {
	why := reason.ConfigReferenceInvalid
	if _, isMissing := errors.AsType[*MissingError](key.Err); isMissing {
		why = reason.ConfigMissing
	}
	return &catalog.Problem{Reason: why, Message: fmt.Sprintf("%s: %s of %s: %v", name, key.Text.Reveal(), key.Origin, key.Err)}
}

// String names the layer for people.
func (o Origin) String() string {
	text := "the " + string(o.Kind)
	switch {
	case o.Set != "":
		text = "the set " + objectname.Display(o.Set)
	case o.Kind == OfGlobal:
		text = "the global service"
	case o.Kind == OfOverride:
		return text + " " + o.Override
	}
	if o.Override != "" {
		text += " of the override " + o.Override
	}
	return text
}

// follow finds what an item leads to, through any number of sets. A reference that may be missing makes
// everything that it leads to optional.
func (in Input) follow(won Won, out *Composed) Key {
	key := Key{Won: won, Final: won.Item}
	seen := map[catalog.HubReference]struct{}{}
	isOptional := false
	for key.Final.Form == Reference {
		raw := key.Final.Text.Reveal()
		isOptional = isOptional || catalog.IsOptional(raw)
		for _, fact := range catalog.FactNames(raw) {
			if !slices.Contains(out.Facts, fact) {
				out.Facts = append(out.Facts, fact)
			}
		}
		text, err := in.Facts.Expand(raw)
		if err != nil {
			missing, ok := errors.AsType[*catalog.FactError](err)
			return key.end(err, isOptional && ok && missing.IsMissing)
		}
		if !catalog.IsHubReference(text) {
			return key.atBackend(text, isOptional)
		}
		reference, err := catalog.ParseHubReference(text, key.Final.Project)
		if err != nil {
			return key.end(err, false)
		}
		place := catalog.HubReference{Set: reference.Set, Key: reference.Key}
		if _, again := seen[place]; again || len(seen) == catalog.MaxHubHops {
			return key.end(&catalog.ReferenceChainError{At: text, IsCircle: again}, false)
		}
		seen[place] = struct{}{}
		set := in.Find(reference.Set)
		out.Sets[reference.Set] = set != nil
		if set == nil {
			return key.end(&MissingError{At: text}, isOptional)
		}
		next, ok := itemOf(set, reference.Key)
		if !ok {
			return key.end(&MissingError{At: text}, isOptional)
		}
		key.Final, key.Through = next, append(key.Through, reference.Set)
	}
	return key
}

// atBackend ends at a reference to a back end, whose text is one that package configs reads.
func (k Key) atBackend(text string, isOptional bool) Key {
	reference, err := catalog.ParseReference(text)
	if err != nil {
		return k.end(err, false)
	}
	reference.Optional = isOptional
	k.Final.Text = secret.Text(reference.String())
	return k
}

// end is the effect on a key whose reference leads nowhere.
func (k Key) end(err error, isAbsent bool) Key {
	k.Final.Text, k.IsAbsent = "", isAbsent
	if !isAbsent {
		k.Err = err
	}
	return k
}

// Literals returns the values and the secrets, and References the references to back ends by key.
func (c Composed) Literals() *catalog.Config {
	config := &catalog.Config{Values: map[string]string{}, Secrets: map[string]secret.Text{}}
	for name, key := range c.Keys {
		switch {
		case key.IsAbsent || key.Err != nil:
		case key.Final.Form == Value:
			config.Values[name] = key.Final.Text.Reveal()
		case key.Final.Form == Secret:
			config.Secrets[name] = key.Final.Text
		}
	}
	return config
}

// References returns the texts of references to back ends, by key, without facts.
func (c Composed) References() map[string]string {
	references := map[string]string{}
	for name, key := range c.Keys {
		if key.Final.Form == Reference && !key.IsAbsent && key.Err == nil {
			references[name] = key.Final.Text.Reveal()
		}
	}
	return references
}
