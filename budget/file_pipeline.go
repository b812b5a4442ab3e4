package budget

import (
	"fmt"
	"io"
	"strings"

	"github.com/vramscope/vramscope/budget/modelfile"
	"github.com/vramscope/vramscope/budget/network"
)

// PipelineIndex is the file that names a pipeline's parts, each of which lies in a folder of that name.
const PipelineIndex = "model_index.json"

// pipelineParts are those of a pipeline that training takes memory for, with their classes.
var pipelineParts = map[string]string{"unet": network.UNetClass, "vae": "AutoencoderKL", "text_encoder": "CLIPTextModel",
	"text_encoder_2": "CLIPTextModelWithProjection"}

// ReadPipeline reads the index of a pipeline of diffusers, and its parts' configurations: open gives that of a folder.
func ReadPipeline(index io.Reader, open func(folder string) (io.ReadCloser, error)) (*Config, error) {
	names, err := modelfile.Fields(index)
	if err != nil {
		return nil, err
	}
	class, _ := names["_class_name"].(string)
	if !strings.HasPrefix(class, "StableDiffusionXL") && class != "StableDiffusionPipeline" {
		return nil, fmt.Errorf("diffusion isn't counted: %q is of diffusers, of which StableDiffusionPipeline and "+
			"StableDiffusionXLPipeline are known", network.Short(class))
	}
	parts := map[string]map[string]any{}
	for part, known := range pipelineParts {
		said, _ := names[part].([]any)
		if len(said) != 2 || said[1] == nil {
			continue
		}
		if own, _ := said[1].(string); own != known {
			return nil, fmt.Errorf("diffusion isn't counted: %s is a %q, and %s's training is known", part,
				network.Short(own), known)
		}
		if parts[part], err = readPart(part, open); err != nil {
			return nil, err
		}
	}
	unet := parts["unet"]
	if unet == nil {
		return nil, fmt.Errorf("%s names no unet", PipelineIndex)
	}
	for part, fields := range parts {
		if part != "unet" {
			unet[part] = fields
		}
	}
	return newConfig(unet)
}

func readPart(part string, open func(folder string) (io.ReadCloser, error)) (map[string]any, error) {
	r, err := open(part)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	fields, err := modelfile.Fields(r)
	if err != nil {
		return nil, fmt.Errorf("%s/config.json: %w", part, err)
	}
	return fields, nil
}

// denoiserConfig is a UNet's, of which only the parts of Stable Diffusion 1, 2 and XL are known.
func denoiserConfig(fields map[string]any) (*Config, error) {
	c := modelfile.New(network.UNetClass, fields)
	if why := modelfile.UnknownUNet(c, c.Ints("block_out_channels")); why != "" {
		return nil, fmt.Errorf("diffusion isn't counted: %s of this %s is none of Stable Diffusion's", network.Short(why),
			network.UNetClass)
	}
	return new(Config).of(c), nil
}
