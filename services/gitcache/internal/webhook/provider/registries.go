// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"net/url"
	"strings"
)

// movesTags reports whether the tags of a repository changed. Layers are pushed without a tag.
func (e registryEvent) movesTags() bool {
	return (e.Action == "push" && e.Target.Tag != "") || e.Action == "delete"
}

const tagsMoved = "tags moved"

// distributionEvent returns tagsMoved if any of the events is about tags.
func distributionEvent(p *payload) string {
	for _, e := range p.Events {
		if e.movesTags() {
			return tagsMoved
		}
	}
	return ""
}

// distributionURLs returns where the repositories are: at the host that was pushed to, and at the one
// that the registry takes for its own.
func distributionURLs(p *payload) []string {
	var urls []string
	for _, e := range p.Events {
		if !e.movesTags() || e.Target.Repository == "" {
			continue
		}
		if e.Request.Host != "" {
			urls = append(urls, "https://"+e.Request.Host+"/"+e.Target.Repository)
		}
		if own, err := url.Parse(e.Target.URL); err == nil && own.Host != "" {
			urls = append(urls, own.Scheme+"://"+own.Host+"/"+e.Target.Repository)
		}
	}
	return urls
}

// harborURLs returns where the artifacts are, without tag and digest.
func harborURLs(p *payload) []string {
	var urls []string
	for _, resource := range p.EventData.Resources {
		name, _, _ := strings.Cut(resource.URL, "@")
		if at := strings.LastIndexByte(name, ':'); at > strings.LastIndexByte(name, '/') {
			name = name[:at]
		}
		if name != "" {
			urls = append(urls, "https://"+name)
		}
	}
	return urls
}
