// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package clusterref reads references of a configuration to values in the service's own cluster.
// The hub checks them and passes them on; the cluster's agent reads what they lead to.
package clusterref

import (
	"fmt"
	"regexp"
	"strings"
)

// Scheme begins each reference.
const Scheme = "cluster://"

// configMaps is the first element of the path of a ConfigMap.
const configMaps = "configmaps"

// The kinds of objects that a reference can name.
const (
	Secret    = "Secret"
	ConfigMap = "ConfigMap"
)

// maxKey bounds a key of an object's data, as Kubernetes does; maxText a whole reference.
const (
	maxKey  = 253
	maxText = 1024
)

// MaxObjects bounds the objects that the references of one service name: the agent watches each.
const MaxObjects = 32

var (
	namespace = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)
	name      = regexp.MustCompile(`^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$`)
	dataKey   = regexp.MustCompile(`^[A-Za-z0-9._-]+$`)
)

// Object is the object that a reference reads.
type Object struct{ Kind, Namespace, Name string }

// String names the object for people.
func (o Object) String() string { return o.Kind + " " + o.Namespace + "/" + o.Name }

// Reference names a value in a Secret or a ConfigMap.
type Reference struct {
	Object
	// Key is one of the object's data. Empty: all of them, as JSON.
	Key string
	// IsOptional lets the value be missing.
	IsOptional bool
}

// Is reports whether a text is meant to be such a reference.
func Is(text string) bool { return strings.HasPrefix(text, Scheme) }

// Parse reads cluster://NAMESPACE/NAME#KEY, which names a Secret, and
// cluster://configmaps/NAMESPACE/NAME#KEY. The text of the error is for people and follows the name
// of a field.
func Parse(text string) (Reference, error) {
	rest, ok := strings.CutPrefix(text, Scheme)
	if !ok || len(text) > maxText {
		return Reference{}, fmt.Errorf("%.80q is not a reference to the service's own cluster; write %sNAMESPACE/NAME#KEY", text, Scheme)
	}
	r := Reference{Object: Object{Kind: Secret}}
	rest, r.IsOptional = strings.CutSuffix(rest, "?")
	place, key, hasKey := strings.Cut(rest, "#")
	if hasKey && (len(key) > maxKey || !dataKey.MatchString(key)) {
		return Reference{}, fmt.Errorf("%.80q is not a key of a Secret or a ConfigMap; leave out # for all keys", key)
	}
	r.Key = key
	elements := strings.Split(place, "/")
	if len(elements) == 3 && elements[0] == configMaps {
		r.Kind, elements = ConfigMap, elements[1:]
	}
	if len(elements) != 2 || !namespace.MatchString(elements[0]) || !name.MatchString(elements[1]) {
		return Reference{}, fmt.Errorf("%.80q does not name an object; write NAMESPACE/NAME for a Secret, or %s/NAMESPACE/NAME", place, configMaps)
	}
	r.Namespace, r.Name = elements[0], elements[1]
	return r, nil
}

// Of returns the references of a configuration that lead into the service's own cluster.
func Of(references map[string]string) map[string]string {
	var own map[string]string
	for key, text := range references {
		if Is(text) {
			if own == nil {
				own = map[string]string{}
			}
			own[key] = text
		}
	}
	return own
}
