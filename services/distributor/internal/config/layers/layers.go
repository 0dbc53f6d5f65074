// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package layers composes the configuration of a service from layers: sets that its project lists,
// sets that it lists itself, and its own document. A derived service has the sets and the document
// of its global service in the place of its own, and the layers of each override after them.
//
// # Promises
//
// Merge and Compose are pure functions. The last layer that has a key wins whole; values are never
// merged. Facts stand in for one element of a path, or a part of one, and never for more. Every chain
// of references ends after catalog.MaxHubHops sets.
//
// # What it does not do
//
// It reads no back end: references to back ends come out as they are to be read, and package configs
// decides what they give. It stores nothing, and does not decide which layers a service has.
package layers

import (
	"maps"
	"slices"

	"github.com/leatdev/leat/internal/contract/objectname"
	"github.com/leatdev/leat/internal/kit/secret"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

// Origin names a layer.
type Origin struct {
	Kind Kind
	// Set is the path of the set that the layer is; empty if it is not a set.
	Set string
	// Override is the name of the override that has the layer; empty if none has.
	Override string
}

// Kind is why a service has a layer.
type Kind string

// The kinds, the lowest first.
const (
	// OfProject are the sets that the service's project lists.
	OfProject Kind = "project"
	// OfSet are the sets that the service lists, or its global service, or an override of that.
	OfSet Kind = "set"
	// OfGlobal is the template of the global service of a derived service.
	OfGlobal Kind = "global"
	// OfOverride is an override of the global service.
	OfOverride Kind = "override"
	// OfService is the service's own document.
	OfService Kind = "service"
)

// Layer is one of the configurations that make up a service's.
type Layer struct {
	Origin
	// Project is the project of the layer's document, in which its references name sets.
	Project string
	// Config may be nil.
	Config *catalog.Config
}

// SetLayer returns the layer of a set.
func SetLayer(kind Kind, set *catalog.ConfigSet) Layer {
	return Layer{Origin: Origin{Kind: kind, Set: set.Name}, Project: objectname.Project(set.Name), Config: set.Spec.Config}
}

// Form is the form of a key's item.
type Form int

// The forms.
const (
	Value Form = iota
	Secret
	Reference
)

// Item is the item of one layer under a key.
type Item struct {
	Origin
	Project string
	Form    Form
	// Text is the value, the secret, or the text of the reference.
	Text secret.Text
}

// Won is the winning item under a key.
type Won struct {
	Item
	// Shadows are the items of lower layers under the key, the highest first.
	Shadows []Item
}

// Merge returns what counts under each key. Layers are in their order, the lowest first.
func Merge(layers []Layer) map[string]Won {
	won := map[string]Won{}
	for _, layer := range layers {
		if layer.Config == nil {
			continue
		}
		put := func(key string, form Form, text secret.Text) {
			next := Won{Item: Item{Origin: layer.Origin, Project: layer.Project, Form: form, Text: text}}
			if last, ok := won[key]; ok {
				next.Shadows = append([]Item{last.Item}, last.Shadows...)
			}
			won[key] = next
		}
		for key, text := range layer.Config.Values {
			put(key, Value, secret.Text(text))
		}
		for key, text := range layer.Config.Secrets {
			put(key, Secret, text)
		}
		for key, text := range layer.Config.References {
			put(key, Reference, secret.Text(text))
		}
	}
	return won
}

// itemOf returns what a set has under a key.
func itemOf(set *catalog.ConfigSet, key string) (Item, bool) {
	config := set.Spec.Config
	if config == nil {
		return Item{}, false
	}
	item := Item{Origin: Origin{Kind: OfSet, Set: set.Name}, Project: objectname.Project(set.Name)}
	if text, ok := config.Values[key]; ok {
		item.Text = secret.Text(text)
		return item, true
	}
	if text, ok := config.Secrets[key]; ok {
		item.Form, item.Text = Secret, text
		return item, true
	}
	text, ok := config.References[key]
	item.Form, item.Text = Reference, secret.Text(text)
	return item, ok
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
