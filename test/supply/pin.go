// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package supply

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// maxManifest bounds a registry's answer, in bytes.
const maxManifest = 4 << 20

// references matches the images of Dockerfiles, Compose files and Kubernetes manifests.
var references = regexp.MustCompile(`(?m)^(FROM +|\s*-?\s*image: +)([^\s#]+)`)

// reference matches host/name:tag@digest; only the name is required.
var reference = regexp.MustCompile(`^(?:([a-z0-9.-]+(?:\.[a-z0-9-]+)+(?::\d+)?|localhost(?::\d+)?)/)?([a-z0-9]+(?:[._/-]+[a-z0-9]+)*)(?::([\w][\w.-]{0,127}))?(?:@(sha256:[0-9a-f]{64}))?$`)

// Image is a reference to an image.
type Image struct {
	// Registry is a host; empty: Docker Hub.
	Registry, Name, Tag string
	// Digest is "sha256:" and 64 digits; empty: none is pinned.
	Digest string
}

// ParseImage returns the parts of a reference. It fails if the digest is malformed.
func ParseImage(text string) (Image, error) {
	m := reference.FindStringSubmatch(text)
	if m == nil {
		return Image{}, fmt.Errorf("%q is not a reference to an image", text)
	}
	return Image{Registry: m[1], Name: m[2], Tag: m[3], Digest: m[4]}, nil
}

// String returns the reference.
func (i Image) String() string {
	s := i.Name
	if i.Registry != "" {
		s = i.Registry + "/" + s
	}
	if i.Tag != "" {
		s += ":" + i.Tag
	}
	if i.Digest != "" {
		s += "@" + i.Digest
	}
	return s
}

// Images returns the image references in a Dockerfile, a Compose file or a manifest. It omits
// stages of the same Dockerfile, also one of several that a variable chooses by the end of its name,
// and "scratch".
func Images(content string) []string {
	stages := []string{"scratch"}
	for _, m := range regexp.MustCompile(`(?mi)^FROM .* AS +(\S+)`).FindAllStringSubmatch(content, -1) {
		stages = append(stages, m[1])
	}
	isStage := func(base string) bool {
		begin, _, isChosen := strings.Cut(base, "${")
		return slices.ContainsFunc(stages, func(stage string) bool {
			return stage == base || isChosen && begin != "" && strings.HasPrefix(stage, begin)
		})
	}
	var found []string
	for _, m := range references.FindAllStringSubmatch(content, -1) {
		if !isStage(m[2]) {
			found = append(found, strings.Trim(m[2], `"'`))
		}
	}
	return found
}

// Unpinned returns the images of a content that are not Leat's own and have no digest.
func Unpinned(content string, own Own) ([]Image, error) {
	var found []Image
	for _, text := range Images(content) {
		image, err := ParseImage(text)
		if err != nil {
			return nil, err
		}
		if !own.Has(image) && image.Digest == "" {
			found = append(found, image)
		}
	}
	return found, nil
}

// Registries requests digests from image registries.
type Registries struct {
	Client *http.Client
	// Scheme is the URL scheme of registries: https; tests use http.
	Scheme string
	// Own are Leat's own images, which have no digest to ask for: they are built from the same commit.
	Own Own
}

// Pin returns the content with the current digest of every image that is not Leat's own, and the
// pinned images.
func (r Registries) Pin(ctx context.Context, content string) (pinned string, images []Image, err error) {
	for _, text := range Images(content) {
		image, err := ParseImage(text)
		if err != nil {
			return "", nil, err
		}
		if r.Own.Has(image) {
			continue
		}
		if image.Tag == "" {
			return "", nil, fmt.Errorf("%s has no tag to find its digest by", text)
		}
		if image.Digest, err = r.Digest(ctx, image); err != nil {
			return "", nil, fmt.Errorf("ask for the digest of %s: %w", text, err)
		}
		whole := regexp.MustCompile(`(?m)^((?:FROM +|\s*-?\s*image: +)["']?)` + regexp.QuoteMeta(text) + `(["'\s]|$)`)
		content = whole.ReplaceAllString(content, "${1}"+image.String()+"${2}")
		images = append(images, image)
	}
	return content, images, nil
}

// Digest returns the digest of the image's tag. It computes the digest from the manifest itself.
func (r Registries) Digest(ctx context.Context, image Image) (string, error) {
	host, name := image.Registry, image.Name
	if host == "" {
		host = "registry-1.docker.io"
		if !strings.Contains(name, "/") {
			name = "library/" + name
		}
	}
	address := r.Scheme + "://" + host + "/v2/" + name + "/manifests/" + image.Tag
	res, err := r.get(ctx, address, "")
	if err != nil {
		return "", err
	}
	if res.code == http.StatusUnauthorized {
		token, err := r.token(ctx, res.header.Get("Www-Authenticate"))
		if err != nil {
			return "", err
		}
		if res, err = r.get(ctx, address, token); err != nil {
			return "", err
		}
	}
	if res.code != http.StatusOK {
		return "", fmt.Errorf("%s answers %d", host, res.code)
	}
	sum := sha256.Sum256(res.body)
	digest := "sha256:" + hex.EncodeToString(sum[:])
	if told := res.header.Get("Docker-Content-Digest"); told != "" && told != digest {
		return "", fmt.Errorf("%s says that the digest is %s, but its manifest has %s", host, told, digest)
	}
	return digest, nil
}

// answer is a registry's answer, read completely.
type answer struct {
	code   int
	header http.Header
	body   []byte
}

func (r Registries) get(ctx context.Context, address, token string) (answer, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, http.NoBody)
	if err != nil {
		return answer{}, err
	}
	for _, form := range []string{
		"application/vnd.oci.image.index.v1+json", "application/vnd.docker.distribution.manifest.list.v2+json",
		"application/vnd.oci.image.manifest.v1+json", "application/vnd.docker.distribution.manifest.v2+json",
	} {
		req.Header.Add("Accept", form)
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	res, err := r.Client.Do(req)
	if err != nil {
		return answer{}, err
	}
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(res.Body, maxManifest+1))
	if err == nil && len(body) > maxManifest {
		err = fmt.Errorf("%s answers with more than %d bytes", req.URL.Host, maxManifest)
	}
	return answer{res.StatusCode, res.Header, body}, err
}

var challengePart = regexp.MustCompile(`(\w+)="([^"]*)"`)

// token requests an anonymous token from the address in the registry's challenge.
func (r Registries) token(ctx context.Context, challenge string) (string, error) {
	parts := map[string]string{}
	for _, m := range challengePart.FindAllStringSubmatch(challenge, -1) {
		parts[m[1]] = m[2]
	}
	realm, err := url.Parse(parts["realm"])
	if err != nil || !strings.HasPrefix(challenge, "Bearer ") || realm.Scheme != r.Scheme {
		return "", fmt.Errorf("registry asks for %q, want a Bearer token by %s", challenge, r.Scheme)
	}
	realm.RawQuery = url.Values{"service": {parts["service"]}, "scope": {parts["scope"]}}.Encode()
	res, err := r.get(ctx, realm.String(), "")
	if err != nil {
		return "", err
	}
	var given struct {
		Token       string `json:"token"`
		AccessToken string `json:"access_token"`
	}
	if res.code != http.StatusOK || json.Unmarshal(res.body, &given) != nil || given.Token+given.AccessToken == "" {
		return "", fmt.Errorf("%s gives no token, but status %d", realm.Host, res.code)
	}
	return cmp.Or(given.Token, given.AccessToken), nil
}
