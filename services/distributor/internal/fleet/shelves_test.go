// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"reflect"
	"testing"

	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

// TestEveryKindHasAShelf takes one object of each kind over from the store, and lets it go.
func TestEveryKindHasAShelf(t *testing.T) {
	t.Parallel()
	isKept := map[catalog.Kind]bool{}
	check := func(object catalog.Object, changes catalog.Changes) {
		object.Meta().Name, object.Meta().UID = "one", "uid"
		c, key := newCatalog(), object.Key()
		put := c.merge(changes, &batch{}, false)
		if _, isTold := put.objects[key]; c.find(key) == nil || !isTold {
			t.Errorf("%s: not there after it was put", key)
		}
		stone := catalog.Tombstone{Key: key, UID: "another"}
		if c.merge(catalog.Changes{Revision: 2, Deleted: []catalog.Tombstone{stone}}, &batch{}, false); c.find(key) == nil {
			t.Errorf("%s: another object of its name was deleted", key)
		}
		stone.UID = "uid"
		gone := c.merge(catalog.Changes{Revision: 3, Deleted: []catalog.Tombstone{stone}}, &batch{}, false)
		if _, isTold := gone.objects[key]; c.find(key) != nil || !isTold {
			t.Errorf("%s: there after it was deleted", key)
		}
		isKept[key.Kind] = true
	}
	eachList(reflect.TypeFor[catalog.Changes](), nil, func(list []int, of reflect.Type) {
		object, changes := reflect.New(of.Elem()).Interface().(catalog.Object), catalog.Changes{Revision: 1}
		reflect.ValueOf(&changes).Elem().FieldByIndex(list).Set(reflect.Append(reflect.Zero(reflect.SliceOf(of)), reflect.ValueOf(object)))
		check(object, changes)
	})
	for _, kind := range catalog.Kinds() {
		if _, empty, isPlain := catalog.PlainTable(kind); isPlain {
			object := empty()
			check(object, catalog.Changes{Revision: 1, Plain: []catalog.Plain{object}})
		}
	}
	for _, kind := range catalog.Kinds() {
		if !isKept[kind] {
			t.Errorf("%s: a batch of changes has no list of them", kind)
		}
	}
}

// eachList calls do with the index and the type of each list of objects in a struct.
func eachList(of reflect.Type, at []int, do func(list []int, of reflect.Type)) {
	for i := range of.NumField() {
		field, index := of.Field(i), append(at[:len(at):len(at)], i)
		switch field.Type.Kind() {
		case reflect.Struct:
			eachList(field.Type, index, do)
		case reflect.Slice:
			if field.Type.Elem().Kind() == reflect.Pointer && field.Type.Elem().Implements(reflect.TypeFor[catalog.Object]()) {
				do(index, field.Type.Elem())
			}
		default:
		}
	}
}
