// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package notifysink

import (
	"net/url"

	"github.com/leatdev/leat/internal/contract/objectname"
	"github.com/leatdev/leat/services/distributor/internal/notify"
	"github.com/leatdev/leat/services/distributor/internal/spine/notice"
)

// Pages returns the addresses of the web UI's pages. Its zero value has none.
type Pages struct {
	// URL is where people's browsers reach the web UI, with a slash at its end. Empty: nowhere.
	URL string
}

// Of returns the page of what a message is about: the object's, or the list of problems if there are several. Empty:
// there is none.
func (p Pages) Of(m notice.Message) string {
	if m.Count == 1 && len(m.Events) == 1 {
		return p.event(m.Events[0])
	}
	return p.at("")
}

// event returns the page of what an event is about.
func (p Pages) event(e notice.Event) string {
	switch {
	case e.Service != "":
		return p.at("services/", e.Service)
	case e.Repository != "":
		return p.at("repositories/", e.Repository)
	case e.Named != "":
		return p.named(e)
	case e.Cluster != "":
		return p.at("clusters/", e.Cluster)
	}
	return p.at("")
}

// named returns the page of an object whose kind only the event's kind tells.
func (p Pages) named(e notice.Event) string {
	switch e.Kind { //nolint:exhaustive // the others name their objects otherwise, or have no page
	case notice.RolloutStopped, notice.RolloutWaiting, notice.RolloutRecovered:
		return p.at("rollouts/", e.Named)
	case notice.FleetSourceFailing, notice.FleetSourceWaiting, notice.FleetSourceRecovered:
		return p.at("fleet-sources/", e.Named)
	case notice.GlobalServiceFailing, notice.GlobalServiceWaiting, notice.GlobalServiceRecovered:
		return p.at("global-services/", e.Named)
	case notice.ConfigBackendFailing, notice.ConfigBackendRecovered:
		return p.at("configuration/backends/", e.Named)
	case notice.ImagePolicyFailing, notice.ImagePolicyRecovered:
		return p.at("image-policies/", e.Named)
	case notice.AccessRequestOpened, notice.AccessRequestEnded:
		return p.at("access")
	}
	return p.at("")
}

// commit returns the page of a commit.
func (p Pages) commit(c notify.Commit) string {
	return p.at("commits/", objectname.Display(c.Repository)+"@"+c.ID)
}

// at returns the address of a page; names are escaped.
func (p Pages) at(folder string, name ...string) string {
	if p.URL == "" {
		return ""
	}
	address := p.URL + folder
	for _, part := range name {
		address += (&url.URL{Path: part}).EscapedPath()
	}
	return address
}
