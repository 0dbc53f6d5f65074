// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package watch

import (
	"crypto/sha256"
	"unique"

	"github.com/google/uuid"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Object is the recorded part of an object.
type Object struct {
	Namespace, Name string // Namespace is empty for cluster-scoped objects
	UID             string
	Label           string // what Collection.Label returned for the object
}

// Known is the set of objects that a collection holds according to the latest events. Its purpose
// is to find the objects that are missing from a later list, so it keeps little of each: about 100
// bytes and its name. The zero Known is not usable; see NewKnown. It is for one goroutine.
type Known struct {
	objects map[key]entry
	uids    map[uid]uint32 // instead of objects: the round of each UID; nil unless made by NewKnownUIDs
	strange map[uid]string // UIDs that are not UUIDs
	round   uint32         // grows with every list
}

// NewKnown returns an empty set.
func NewKnown() *Known {
	return &Known{objects: map[key]entry{}, strange: map[uid]string{}}
}

// NewKnownUIDs returns an empty set that keeps only UIDs, in about 40 bytes an object. It is for
// handlers that count objects, or identify them by UID. Gone then receives only the UID, without
// name, namespace and label. If the server sends no deletion, for example because another object
// has taken the name meanwhile, Gone is called at the end of the next list.
func NewKnownUIDs() *Known {
	return &Known{uids: map[uid]uint32{}, strange: map[uid]string{}}
}

// key identifies an object of the collection.
type key struct {
	namespace unique.Handle[string]
	name      string
}

type entry struct {
	uid   uid
	label unique.Handle[string]
	round uint32 // of the latest list or event with the object
}

// uid is a UUID in binary, or a hash of another form of UID.
type uid = uuid.UUID

// Len returns the number of objects.
func (k *Known) Len() int { return len(k.objects) + len(k.uids) }

// Objects returns the objects in no particular order.
func (k *Known) Objects() []Object {
	all := make([]Object, 0, k.Len())
	for id := range k.uids {
		all = append(all, Object{UID: k.decode(id)})
	}
	for key, entry := range k.objects {
		all = append(all, k.object(key, entry))
	}
	return all
}

// begin starts a round: objects that are not put before sweep are gone.
func (k *Known) begin() { k.round++ }

// put adds an object. If that replaces one with another UID or label, put returns the replaced one.
func (k *Known) put(o *unstructured.Unstructured, label string) (before Object, replaced bool) {
	id := k.encode(string(o.GetUID()))
	if k.uids != nil {
		k.uids[id] = k.round
		return Object{}, false
	}
	at := keyOf(o)
	now := entry{uid: id, label: unique.Make(label), round: k.round}
	old, had := k.objects[at]
	k.objects[at] = now
	if !had || old.uid == now.uid && old.label == now.label {
		return Object{}, false
	}
	before = k.object(at, old)
	if old.uid != now.uid {
		delete(k.strange, old.uid)
	}
	return before, true
}

// remove removes the object of that name, and returns its recorded part.
func (k *Known) remove(o *unstructured.Unstructured) (Object, bool) {
	if k.uids != nil {
		return k.removeUID(k.encode(string(o.GetUID())))
	}
	at := keyOf(o)
	old, had := k.objects[at]
	if !had {
		return Object{}, false
	}
	object := k.object(at, old)
	k.drop(at, old)
	return object, true
}

func (k *Known) removeUID(id uid) (Object, bool) {
	_, had := k.uids[id]
	object := Object{UID: k.decode(id)}
	delete(k.uids, id)
	delete(k.strange, id)
	return object, had
}

// sweep removes the objects that were not put in this round, and then calls gone for each.
func (k *Known) sweep(gone func(Object)) {
	for at, entry := range k.objects {
		if entry.round != k.round {
			object := k.object(at, entry)
			k.drop(at, entry)
			gone(object)
		}
	}
	for id, round := range k.uids {
		if round != k.round {
			object, _ := k.removeUID(id)
			gone(object)
		}
	}
}

// Clear removes all objects, and calls gone for each.
func (k *Known) Clear(gone func(Object)) {
	k.begin()
	k.sweep(gone)
}

func (k *Known) drop(at key, e entry) {
	delete(k.objects, at)
	delete(k.strange, e.uid)
}

func (k *Known) object(at key, e entry) Object {
	return Object{Namespace: at.namespace.Value(), Name: at.name, UID: k.decode(e.uid), Label: e.label.Value()}
}

func keyOf(o *unstructured.Unstructured) key {
	return key{namespace: unique.Make(o.GetNamespace()), name: o.GetName()}
}

// encode stores a UID in 16 bytes. The API server assigns UUIDs; aggregated API servers may use any
// text.
func (k *Known) encode(text string) uid {
	if id, err := uuid.Parse(text); err == nil && id.String() == text {
		return id
	}
	hash := sha256.Sum256([]byte(text))
	id := uid(hash[:16])
	k.strange[id] = text
	return id
}

func (k *Known) decode(id uid) string {
	if text, ok := k.strange[id]; ok {
		return text
	}
	return id.String()
}
