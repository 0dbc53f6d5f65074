// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package manifest

import (
	"encoding/base64"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/leatdev/leat/internal/contract/clusterref"
	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/services/agent/internal/confine"
	"github.com/leatdev/leat/services/agent/internal/inventory"
	"github.com/leatdev/leat/services/agent/internal/plan"
)

// Readers gives access to objects of the cluster.
type Readers interface {
	// Reader returns what reads the cluster on behalf of a service. Error: TenantForbidden, if the
	// service must name an account and names none.
	Reader(s plan.Service) (*confine.Reader, error)
}

// Reads are objects of the cluster that a render has read.
type Reads map[inventory.Ref]Read

// Read is how an object was read.
type Read struct {
	// Reader has read it.
	Reader *confine.Reader
	// Version is the resource version. Empty: the object does not exist, or the cluster refuses it.
	Version string
}

// add records that an object was read, with the answer. A read beyond the service's bounds was none.
func (r *Reads) add(reader *confine.Reader, ref inventory.Ref, live *unstructured.Unstructured, err error) {
	if confine.IsRefusal(err) {
		return
	}
	if *r == nil {
		*r = Reads{}
	}
	read := Read{Reader: reader}
	if live != nil {
		read.Version = live.GetResourceVersion()
	}
	(*r)[ref] = read
}

// isDenied reports whether the API server refused a read, or the agent one in its own namespace.
func isDenied(err error) bool {
	if err == nil {
		return false
	}
	why := reason.ProblemOf(err).Reason
	return why == reason.TenantForbidden || why == reason.ApplyRejected
}

// dataOf returns the texts of a Secret or a ConfigMap; false if its data cannot be read. Values that
// are not text are left out.
func dataOf(live *unstructured.Unstructured) (data map[string]string, ok bool) {
	held, _, err := unstructured.NestedStringMap(live.Object, "data")
	if err != nil {
		return nil, false
	}
	data = map[string]string{}
	for key, text := range held {
		if live.GetKind() == clusterref.Secret {
			plain, err := base64.StdEncoding.DecodeString(text)
			if err != nil {
				return nil, false
			}
			text = string(plain)
		}
		if utf8.ValidString(text) {
			data[key] = text
		}
	}
	return data, true
}
